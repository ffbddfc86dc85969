// Runs of messages that are followed to their end: a bar for each.

import { el, table } from "./dom.js";
import { count, duration, moment, NOT_YET, rate, UNKNOWN } from "./format.js";
import { remember } from "./form.js";

const ENDS = [["done", "done"], ["dead_lettered", "dead letters"], ["cancelled", "cancelled"], ["expired", "expired"]];

/** The panel, which is hidden where no run was opened lately; `show` fills it with an answer of the server. */
export class Runs {
  constructor() {
    this.found = el("div", { id: "runs" });
    this.panel = el("section", { class: "panel", "aria-labelledby": "runs-title", hidden: true },
      el("div", { class: "panel-head" }, el("h2", { id: "runs-title" }, "Runs"),
        el("p", { class: "quiet" }, "Opened in the last week, the latest first. A large run is counted by a sample.")),
      this.found);
  }

  show({ runs }) {
    this.panel.hidden = !runs.length;
    remember("run", ...runs.map((row) => row.run));
    this.found.replaceChildren(table(COLUMNS, runs, { caption: "Runs" }));
  }

  fail(box) {
    this.panel.hidden = false;
    this.found.replaceChildren(box);
  }
}

const CHIPS = { ended: "good", closed: "warn" };
const ended = (row) => ENDS.reduce((sum, [end]) => sum + row[end], 0);
/** A count, and where it is estimated how far it may be off. */
function counted(row, name) {
  if (row[name] === null) return NOT_YET;
  return `${count(row[name])}${row.errors[name] ? ` ± ${count(row.errors[name])}` : ""}`;
}

/** The ends as parts of the total; before that is known there is nothing to measure them by. */
function bar(row) {
  const parts = ENDS.filter(([end]) => row.total && row[end]);
  const words = parts.map(([end, title]) => `${counted(row, end)} ${title}`).join(", ") || "no end is recorded";
  const label = row.total === null ? "its total is not known yet" : `${words}, of ${count(row.total)}`;
  return el("span", { class: "progress", role: "img", "aria-label": label, title: label }, parts.map(([end]) => {
    const fill = el("i", { class: end });
    fill.style.width = `${100 * row[end] / row.total}%`;
    return fill;
  }));
}

function dead(row) {
  const text = counted(row, "dead_lettered");
  return row.dead_lettered ? el("a", { href: `#dead-letters?${new URLSearchParams({ run: row.run })}` }, text) : text;
}

const COLUMNS = [
  { title: "run", heads: true, cell: (row) => row.run },
  { title: "state", cell: (row) => el("span", { class: `chip ${CHIPS[row.state] ?? ""}` }, row.state) },
  { title: "progress", value: (row) => (row.total ? ended(row) / row.total : 0), cell: bar },
  { title: "total", kind: "number", cell: (row) => (row.total === null ? NOT_YET : count(row.total)) },
  { title: "done", kind: "number", cell: (row) => counted(row, "done") },
  { title: "dead letters", kind: "number", cell: dead },
  { title: "left", kind: "number", cell: (row) => counted(row, "left") },
  { title: "a second", kind: "number", hint: "Ends in the last minute; of a run that is over, in all of its time", cell: (row) => rate(row.rate) },
  { title: "time left", kind: "number", value: (row) => row.eta ?? Infinity, cell: (row) => (row.eta === null ? UNKNOWN : duration(row.eta)) },
  { title: "opened", kind: "when", value: (row) => row.opened_at, cell: (row) => moment(row.opened_at) },
  { title: "over", kind: "when", value: (row) => row.over_at, cell: (row) => (row.over_at ? moment(row.over_at) : "") },
];
