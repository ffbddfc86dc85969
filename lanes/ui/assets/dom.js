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

const sortings = new Map();

/**
 * A table: columns are {title, cell(row), kind, value(row)}, where kind "number" aligns to the right.
 *
 * A click on a column's title sorts by its values, by default the texts of its cells; the table of the same caption
 * keeps that when it is made again.
 */
export function table(columns, rows, { caption, empty = "nothing", rowProperties = () => ({}) } = {}) {
  if (!rows.length) return el("p", { class: "quiet" }, empty);
  const body = el("tbody", {});
  const heads = columns.map((column) => head(column, caption, () => sort(body, columns, heads, caption)));
  const lines = rows.map((row) => {
    const line = el("tr", rowProperties(row), columns.map((column) =>
      el(column.heads ? "th" : "td", { class: column.kind, scope: column.heads ? "row" : null }, column.cell(row))));
    line.keys = columns.map((column, index) => keyOf(column.value ? column.value(row) : line.children[index].textContent));
    return line;
  });
  body.append(...lines);
  body.lines = lines;
  sort(body, columns, heads, caption);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {},
      el("caption", { class: "hidden-text" }, caption),
      el("thead", {}, el("tr", {}, heads)),
      body));
}

function head(column, caption, again) {
  // A column of buttons or boxes has no title and no order.
  if (!column.title) return el("td", { class: column.kind });
  return el("th", { scope: "col", class: column.kind, title: column.hint },
    el("button", { type: "button", class: "sort", onclick: () => {
      const { title, down } = sortings.get(caption) ?? {};
      if (title === column.title && down) sortings.delete(caption);
      else sortings.set(caption, { title: column.title, down: title === column.title });
      again();
    } }, column.title));
}

/** Sort up at the first click, down at the second; the third brings back the order of the answer. */
function sort(body, columns, heads, caption) {
  const { title, down } = sortings.get(caption) ?? {};
  const index = columns.findIndex((column) => column.title && column.title === title);
  heads.forEach((one, place) => {
    if (place === index) one.setAttribute("aria-sort", down ? "descending" : "ascending");
    else one.removeAttribute("aria-sort");
  });
  const lines = [...body.lines];
  if (index >= 0) lines.sort((one, other) => (down ? -1 : 1) * compare(one.keys[index], other.keys[index]));
  body.append(...lines);
}

const NUMBER = /^-?[\d,]+(\.\d+)?$/;
const keyOf = (value) => (typeof value === "string" && NUMBER.test(value) ? Number(value.replaceAll(",", "")) : value ?? "");
const compare = (one, other) => (typeof one === "number" && typeof other === "number" ? one - other
  : String(one).localeCompare(String(other), "en", { numeric: true }));

/** A list of names and values. */
export function facts(entries) {
  return el("dl", { class: "facts" }, entries
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}
