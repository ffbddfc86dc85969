// The outbox: what waits to be sent, by kind, group and lane, and changing it while it waits.

import { ask } from "./calls.js";
import { offer, present, tracing } from "./change.js";
import { announce, el, facts, table } from "./dom.js";
import { form } from "./form.js";
import { ago, body, count, moment } from "./format.js";
import { troubleBox, troubleOf } from "./trouble.js";

const STATES = ["PENDING", "FAILED", "PROCESSING", "ABANDONED", "PUBLISHED"];

let view = null;

export function enter(main, { place, query }) {
  view = { place, standing: el("div", { class: "tiles" }), spread: el("div", {}), found: el("div", { id: "found" }), actions: el("div", { class: "actions" }) };
  view.form = form([
    { name: "kind", title: "Kind", hint: "such as order[.].*" },
    { name: "group", title: "Group", hint: "such as acme-.*" },
    { name: "source", title: "Source" },
    { name: "lowest", title: "From priority", kind: "number" },
    { name: "highest", title: "To priority", kind: "number" },
    { name: "state", title: "State", options: [["", "not published"], ...STATES.map((state) => [state, state])] },
    { name: "exact", title: "exactly, not as patterns", kind: "flag" },
  ], query, { submit: "Find", onsubmit: find });
  main.append(
    el("section", { class: "panel", "aria-labelledby": "outbox-title" },
      el("div", { class: "panel-head" }, el("h1", { id: "outbox-title" }, "Outbox"), el("p", { class: "quiet" }, place.outbox)),
      view.standing,
      el("details", { class: "spread", ontoggle: (event) => event.target.open && spread() },
        el("summary", {}, "Waiting by kind, group and lane"), view.spread)),
    el("section", { class: "panel", "aria-labelledby": "entries-title" },
      el("h2", { id: "entries-title" }, "Entries"), view.form.root, view.actions, view.found));
  stand();
  find();
}

export function leave() {
  view = null;
}

async function stand() {
  const mine = view;
  try {
    const { counts, oldest_at: oldest, is_complete: isComplete } = await ask("outbox");
    const tile = (title, text, kind) => el("div", { class: `tile ${kind ?? ""}` }, el("span", { class: "quiet" }, title), el("strong", {}, text));
    mine.standing.replaceChildren(
      // DynamoDB does not count what is published: that keeps a publish cheap.
      ...STATES.filter((state) => state !== "PUBLISHED" || state in counts).map((state) => tile(state.toLowerCase(), count(counts[state] ?? 0) + (isComplete ? "" : "+"),
        ["FAILED", "ABANDONED"].includes(state) && counts[state] ? "bad" : "")),
      tile("oldest unfinished", oldest === null ? "none" : ago(oldest)));
  } catch (error) {
    mine.standing.replaceChildren(troubleBox(troubleOf(error)));
  }
}

async function spread() {
  const mine = view;
  mine.spread.replaceChildren(el("p", { class: "quiet" }, "Counting …"));
  try {
    const found = await ask("outbox_spread");
    mine.spread.replaceChildren(
      el("div", { class: "columns" }, bars("Lane", found.lanes, 0), bars("Kind", found.kinds, found.more_kinds), bars("Group", found.groups, found.more_groups)),
      el("p", { class: "quiet" }, "Of messages that are in a queue already, SQS tells the number, and neither kinds nor groups without handing the messages out."));
  } catch (error) {
    mine.spread.replaceChildren(troubleBox(troubleOf(error)));
  }
}

function bars(title, counted, more) {
  const most = Math.max(1, ...counted.map(([, number]) => number));
  return el("div", {}, el("h3", {}, title), counted.length ? el("ul", { class: "bars" }, counted.map(([name, number]) =>
    el("li", {}, el("span", { class: "clamp", title: name }, name || "no group"), gauge(number / most), el("span", { class: "number" }, count(number))))) : el("p", { class: "quiet" }, "nothing waits"),
  more ? el("p", { class: "quiet" }, `and ${count(more)} more`) : null);
}

function gauge(share) {
  const fill = el("i");
  fill.style.width = `${100 * share}%`;
  return el("span", { class: "gauge", "aria-hidden": "true" }, fill);
}

function filter() {
  const { state, ...values } = view.form.values();
  return { ...values, states: state ? [state] : [] };
}

async function find() {
  const mine = view;
  mine.found.setAttribute("aria-busy", "true");
  try {
    mine.answer = await ask("entries", { ...filter(), limit: 100 });
    if (view === mine) showFound();
  } catch (error) {
    mine.found.replaceChildren(troubleBox(troubleOf(error)));
    mine.actions.replaceChildren();
  }
  mine.found.removeAttribute("aria-busy");
}

const COLUMNS = [
  { title: "kind", heads: true, cell: (row) => el("button", { type: "button", class: "link", onclick: () => show(row) }, row.kind) },
  { title: "id", kind: "id", cell: (row) => row.id },
  { title: "group", kind: "id", cell: (row) => row.group ?? "" },
  { title: "state", cell: (row) => el("span", { class: `chip ${{ ABANDONED: "bad", FAILED: "warn", PUBLISHED: "good" }[row.state] ?? ""}` }, row.state.toLowerCase()) },
  { title: "priority", kind: "number", cell: (row) => String(row.priority) },
  { title: "lane", cell: (row) => row.lane },
  { title: "attempts", kind: "number", cell: (row) => String(row.attempts) },
  { title: "written", kind: "when", cell: (row) => moment(row.created_at) },
  { title: "last error", kind: "long", cell: (row) => el("div", { class: "clamp" }, row.last_error) },
];

function showFound() {
  const { entries, has_more: hasMore, meant } = view.answer;
  view.found.replaceChildren(
    table(COLUMNS, entries, { caption: "Entries of the outbox", empty: `There are no entries: ${meant}` }),
    hasMore ? el("p", { class: "quiet" }, `The first ${entries.length}; changes work on all that match, and show how many first.`) : "");
  announce(`${entries.length} entries`);
  showActions();
}

function showActions() {
  if (!view.place.writes || !view.answer.entries.length) return view.actions.replaceChildren();
  const priority = el("input", { type: "number", id: "priority", value: "50", "aria-label": "New priority" });
  const act = (change, title, kind) => el("button", { type: "button", class: kind,
    onclick: () => offer({ ...filter(), change, ...(change === "prioritize" ? { priority: priority.value } : {}) }, again) }, title);
  view.actions.replaceChildren(
    el("span", { class: "joined" }, act("prioritize", "Prioritise to", "primary"), priority),
    act("cancel", "Cancel …", "danger"), act("retry", "Retry …"),
    el("span", { class: "quiet" }, "all that match, after a preview"));
}

function again() {
  if (!view) return;
  stand();
  find();
}

async function show(row) {
  try {
    const entry = await ask("entry", { id: row.id });
    const named = Object.entries(entry).filter(([name]) => name !== "body");
    const isTime = (name) => name.endsWith("_at") || name.endsWith("_until");
    present("Outbox entry", [
      facts(named.map(([name, value]) => [name.replaceAll("_", " "), value === null ? null : isTime(name) ? moment(value) : String(value)])),
      el("h3", {}, "Message"), el("pre", { tabindex: "0" }, body(entry.body)),
    ], [tracing(entry.id)]);
  } catch (error) {
    present("Outbox entry", troubleBox(troubleOf(error)));
  }
}
