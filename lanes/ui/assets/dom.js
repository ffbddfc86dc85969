// Builds elements. Text from messages only ever becomes text nodes: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: properties that begin with "on" are listeners, the others attributes; null ones are left out. */
export function el(name, properties = {}, ...children) {
  return build(document.createElement(name), properties, children);
}

/** The same for SVG. */
export function svg(name, properties = {}, ...children) {
  return build(document.createElementNS(SVG, name), properties, children);
}

function build(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const byId = (id) => document.getElementById(id);

/** Announce a text to screen readers. */
export function announce(text) {
  byId("said").textContent = text;
}

/** A table: columns are {title, cell(row), kind}, where kind "number" aligns to the right. */
export function table(columns, rows, { caption, empty = "nothing", rowProperties = () => ({}) } = {}) {
  if (!rows.length) return el("p", { class: "quiet" }, empty);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {},
      el("caption", { class: "hidden-text" }, caption),
      el("thead", {}, el("tr", {}, columns.map((column) =>
        el("th", { scope: "col", class: column.kind, title: column.hint }, column.title)))),
      el("tbody", {}, rows.map((row) => el("tr", rowProperties(row), columns.map((column) =>
        el(column.heads ? "th" : "td", { class: column.kind, scope: column.heads ? "row" : null },
          column.cell(row))))))));
}

/** A list of names and values. */
export function facts(entries) {
  return el("dl", { class: "facts" }, entries
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}
