// From the log of the function: below the lanes waits by kind, running invocations and failures by error; symptoms.

import { el, table } from "./dom.js";
import { ago, count, duration } from "./format.js";
import { remember } from "./form.js";

const MS = 1000;
const SHOWN = 100;

/** The panels; `show` fills them with an answer of the server. */
export class Work {
  constructor(lanes) {
    this.places = new Map(lanes.map(({ name }, place) => [name, place]));
    this.waits = el("div", { id: "waits" }, el("p", { class: "quiet" }, "Reading the log …"));
    this.running = el("div", { id: "running" });
    this.failures = el("div", { id: "failures" });
    this.since = el("p", { class: "quiet" });
    this.failedSince = el("p", { class: "quiet" });
    this.panels = [
      panel("waits-title", "Wait by kind", this.since, this.waits),
      panel("running-title", "Running now", el("p", { class: "quiet" }, "Invocations that have started and not ended."), this.running),
      panel("failures-title", "Failures", this.failedSince, this.failures),
    ];
  }

  show({ since, waits, running, failed_since, failures, notes }) {
    const place = (wait) => this.places.get(wait.lane) ?? this.places.size;
    const kinds = waits.filter((wait) => wait.kind).sort((one, other) => place(one) - place(other));
    remember("kind", ...kinds.map((wait) => wait.kind), ...failures.map((one) => one.kind));
    remember("error", ...failures.map((one) => one.error));
    remember("id", ...failures.map((one) => one.last_id));
    const note = (begin) => notesOf(notes, begin);
    this.since.textContent = kinds.length ? `From sending to the start of the handler that succeeded, in the last ${duration(Math.round(Date.now() / MS - since))}.` : "";
    this.failedSince.textContent = `In the last ${duration(Math.round(Date.now() / MS - failed_since))}. Errors that differ in numbers and ids only are counted together.`;
    this.waits.replaceChildren(table(WAITS, kinds, { caption: "Wait by kind", empty: "No message was handled in the last hour." }), ...note("waits"));
    this.running.replaceChildren(
      running === null ? "" : table(RUNNING, running, { caption: "Running now", empty: "Nothing runs, as far as the log and the presence records show." }),
      ...note("running"));
    this.failures.replaceChildren(table(FAILURES, failures.slice(0, SHOWN), { caption: "Failures by error", empty: "No attempt failed." }),
      failures.length > SHOWN ? el("p", { class: "quiet" }, `and ${count(failures.length - SHOWN)} other errors`) : "", ...note("failures"));
  }

  fail(box) {
    this.waits.replaceChildren(box);
    this.running.replaceChildren();
    this.failures.replaceChildren();
  }
}

/** A line for each thing that is wrong, in the words of `lanes status`. */
export const symptomLines = (symptoms, notes = []) => [
  ...symptoms.map(({ text, page }) => el("p", {}, el("strong", { class: "bad" }, text), el("span", { class: "quiet" }, ` [runbook: ${page}]`))),
  ...notesOf(notes, "resources away"), ...notesOf(notes, "returned messages")];

const notesOf = (notes, begin) => notes.filter((one) => one.startsWith(begin)).map((one) => el("p", { class: "quiet" }, `Note: ${one}`));

function panel(id, title, about, content) {
  return el("section", { class: "panel", "aria-labelledby": id },
    el("div", { class: "panel-head" }, el("h2", { id }, title), about), content);
}

const link = (view, fields, text) => el("a", { href: `#${view}?${new URLSearchParams(fields)}` }, text);

const WAITS = [
  { title: "lane", cell: (row) => row.lane },
  { title: "kind", heads: true, cell: (row) => row.kind },
  { title: "handled", kind: "number", cell: (row) => count(row.handled) },
  { title: "p50", kind: "number", hint: "Half of them waited no longer", value: (row) => row.p50, cell: (row) => duration(row.p50) },
  { title: "p99", kind: "number", hint: "99 of 100 waited no longer", value: (row) => row.p99, cell: (row) => duration(row.p99) },
];

const RUNNING = [
  { title: "environment", kind: "id", cell: (row) => row.environment },
  { title: "lane", heads: true, cell: (row) => row.lane || "not known yet" },
  { title: "records", kind: "number", cell: (row) => count(row.records) },
  { title: "for", kind: "number", value: (row) => -row.since, cell: (row) => duration(Math.round(Date.now() / MS - row.since)) },
  { title: "last event", kind: "long", cell: (row) => row.last },
];

const FAILURES = [
  { title: "lane", cell: (row) => row.lane },
  { title: "kind", heads: true, cell: (row) => row.kind || "no event" },
  { title: "error", kind: "long", cell: (row) => el("div", { class: "clamp", title: row.error }, row.error) },
  { title: "attempts", kind: "number", hint: "Failed attempts, with those that end in a dead letter", cell: (row) => count(row.attempts) },
  { title: "dead letters", kind: "number", cell: (row) => (row.dead_letters ? link("dead-letters", { lane: row.lane, kind: row.kind }, count(row.dead_letters)) : "0") },
  { title: "last", kind: "when", value: (row) => row.last_at, cell: (row) => ago(row.last_at) },
  { title: "its message", kind: "id", cell: (row) => link("trace", { id: row.last_id }, row.last_id) },
];
