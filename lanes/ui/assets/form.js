// Filter forms; their values are part of the address, and those that this page has shown are suggested.

import { el } from "./dom.js";

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

const MOST = 200;
const KEPT = 8;
const TRACED = "lanes-traced";
const known = new Map();

/** Keep values of one sort, the latest first. */
export function remember(sort, ...values) {
  const others = known.get(sort) ?? [];
  known.set(sort, [...new Set([...values.filter(Boolean), ...others])].slice(0, MOST));
}

export const suggestions = (sort) => known.get(sort) ?? [];

/** Ids of the last traces of this browser. */
export function traced() {
  try {
    const found = JSON.parse(localStorage.getItem(TRACED) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string").slice(0, KEPT) : [];
  } catch {
    return [];
  }
}

export function rememberTrace(id) {
  localStorage.setItem(TRACED, JSON.stringify([id, ...traced().filter((one) => one !== id)].slice(0, KEPT)));
}
