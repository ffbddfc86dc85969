// The outbox: entries by state, kind, group and lane.

import { ask, faultBox, faultOf } from "./calls.js";
import { offer, present, tracing } from "./change.js";
import { announce, el, facts, table } from "./dom.js";
import { form, remember } from "./form.js";
import { ago, body, count, moment } from "./format.js";

const STATES = ["PENDING", "FAILED", "PROCESSING", "ABANDONED", "CANCELLED", "PUBLISHED"];

let view = null;

export function enter(main, { target, query }) {
  if (!target.outbox) {
    main.append(el("section", { class: "panel" }, el("h1", {}, "Outbox"),
      el("p", {}, "This stack has no outbox. To see one in a SQL database, start the page with --database.")));
    return;
  }
  view = { target, counts: el("div", { class: "tiles" }), spread: el("div", {}), found: el("div", { id: "found" }), actions: el("div", { class: "actions" }) };
  view.form = form([
    { name: "kind", title: "Kind", hint: "such as order.*", suggest: "kind" },
    { name: "group", title: "Group", hint: "such as acme-*", suggest: "group" },
    { name: "source", title: "Source" },
    { name: "lowest", title: "From priority", kind: "number" },
    { name: "highest", title: "To priority", kind: "number" },
    { name: "state", title: "State", options: [["", "not published"], ...STATES.map((state) => [state, state])] },
    { name: "exact", title: "exactly, not as patterns", kind: "flag" },
  ], query, { submit: "Find", onsubmit: find });
  main.append(
    el("section", { class: "panel", "aria-labelledby": "outbox-title" },
      el("div", { class: "panel-head" }, el("h1", { id: "outbox-title" }, "Outbox"), el("p", { class: "quiet" }, target.outbox)),
      view.counts,
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
    const { counts, oldest_at: oldest, is_complete: isComplete, held_groups: held, scheduled, relays } = await ask("outbox");
    const tile = (title, text, kind) => el("div", { class: `tile ${kind ?? ""}` }, el("span", { class: "quiet" }, title), el("strong", {}, text));
    mine.counts.replaceChildren(
      // DynamoDB does not count published entries: that keeps a publish cheap.
      ...STATES.filter((state) => state !== "PUBLISHED" || state in counts).map((state) => tile(state.toLowerCase(), count(counts[state] ?? 0) + (isComplete ? "" : "+"),
        ["FAILED", "ABANDONED"].includes(state) && counts[state] ? "bad" : "")),
      tile("scheduled", count(scheduled)),
      tile("held groups", count(held), held ? "bad" : ""),
      tile("oldest unfinished", oldest === null ? "none" : ago(oldest)),
      ...relays.map((one) => tile(`sent by ${one.relay}`, count(one.entries))));
  } catch (error) {
    mine.counts.replaceChildren(faultBox(faultOf(error)));
  }
}

async function spread() {
  const mine = view;
  mine.spread.replaceChildren(el("p", { class: "quiet" }, "Counting …"));
  try {
    const found = await ask("outbox_spread");
    mine.spread.replaceChildren(
      el("div", { class: "columns" }, bars("Lane", found.lanes, 0), bars("Kind", found.kinds, found.more_kinds), bars("Group", found.groups, found.more_groups)),
      el("p", { class: "quiet" }, "SQS shows only the number of messages in a queue; kinds and groups can't be read without delivering the messages."));
  } catch (error) {
    mine.spread.replaceChildren(faultBox(faultOf(error)));
  }
}

function bars(title, counted, more) {
  const most = Math.max(1, ...counted.map(([, number]) => number));
  return el("div", {}, el("h3", {}, title), counted.length ? el("ul", { class: "bars" }, counted.map(([name, number]) =>
    el("li", {}, el("span", { class: "clamp", title: name }, name || "no group"), gauge(number / most), el("span", { class: "number" }, count(number))))) : el("p", { class: "quiet" }, "no entries"),
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
    mine.found.replaceChildren(faultBox(faultOf(error)));
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
  { title: "written", kind: "when", value: (row) => row.created_at, cell: (row) => moment(row.created_at) },
  { title: "not before", kind: "when", value: (row) => row.not_before, cell: (row) => (row.not_before ? moment(row.not_before) : "") },
  { title: "last error", kind: "long", cell: (row) => el("div", { class: "clamp" }, row.last_error) },
];

function showFound() {
  const { entries, has_more: hasMore, meant } = view.answer;
  remember("kind", ...entries.map((entry) => entry.kind));
  remember("group", ...entries.map((entry) => entry.group));
  remember("id", ...entries.map((entry) => entry.id));
  view.found.replaceChildren(
    table(COLUMNS, entries, { caption: "Entries of the outbox", empty: `No entries match: ${meant}` }),
    hasMore ? el("p", { class: "quiet" }, `These are the first ${entries.length}. Changes apply to all matching entries, after a preview.`) : "");
  announce(`${entries.length} entries`);
  showActions();
}

function showActions() {
  if (!view.target.writes || !view.answer.entries.length) return view.actions.replaceChildren();
  const { state, ...values } = view.form.values();
  view.actions.replaceChildren(
    el("button", { type: "button", onclick: () => { location.hash = `#move?${new URLSearchParams({ ...values, in: "outbox" })}`; } }, "Prioritise or cancel …"),
    el("button", { type: "button", onclick: () => offer({ ...filter(), change: "retry" }, again) }, "Retry …"),
    el("span", { class: "quiet" }, "all matching entries, after a preview"));
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
    present("Outbox entry", faultBox(faultOf(error)));
  }
}
