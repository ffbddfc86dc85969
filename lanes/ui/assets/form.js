// Filter forms; their values are part of the address.

import { el } from "./dom.js";
import { suggestions } from "./known.js";

export function form(fields, query, { submit, onsubmit, keep = {} }) {
  const inputs = new Map(fields.map((field) => [field.name, input(field, query.get(field.name) ?? field.initial ?? "")]));
  const values = () => Object.fromEntries(fields
    .map((field) => [field.name, read(field, inputs.get(field.name))])
    .filter(([, value]) => value !== "" && value !== false));
  const root = el("form", { class: "filter", onsubmit: (event) => {
    event.preventDefault();
    const kept = new URLSearchParams(Object.entries({ ...keep, ...values() }).map(([name, value]) => [name, String(value)]));
    history.replaceState(null, "", `${location.hash.split("?")[0]}${kept.size ? `?${kept}` : ""}`);
    onsubmit(values());
  } },
  fields.map((field) => el("label", { class: field.kind === "flag" ? "flag" : field.wide ? "wide" : null },
    el("span", {}, field.title), inputs.get(field.name), field.suggest ? el("datalist", { id: `known-${field.name}` }) : null)),
  el("button", { type: "submit", class: "primary" }, submit));
  return { root, values };
}

function input(field, value) {
  if (field.options) {
    return el("select", { name: field.name }, field.options.map(([id, title]) =>
      el("option", { value: id, selected: id === value }, title)));
  }
  if (field.kind === "flag") return el("input", { type: "checkbox", name: field.name, checked: value === "true" });
  return el("input", { type: field.kind ?? "text", name: field.name, value, placeholder: field.hint ?? "", autocomplete: "off",
    spellcheck: "false", autocapitalize: "off",
    list: field.suggest ? `known-${field.name}` : null,
    onfocus: field.suggest ? (event) => suggest(field, event.target) : null });
}

/** Offer the values that the page has shown by now. */
function suggest(field, node) {
  node.list.replaceChildren(...suggestions(field.suggest).map((value) => el("option", { value })));
}

function read(field, node) {
  return field.kind === "flag" ? node.checked : node.value.trim();
}
