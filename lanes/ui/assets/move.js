// Move: change waiting work in lanes and outbox, and list overrides, blocked groups and schedules.

import { ask, faultBox, faultOf } from "./calls.js";
import { offer } from "./change.js";
import { el, table } from "./dom.js";
import { form } from "./form.js";
import { count, moment } from "./format.js";

let view = null;

export function enter(main, { target, query }) {
  view = { target, overrides: el("div", { class: "stack-of" }), schedules: el("div", { class: "stack-of" }) };
  if (target.writes) main.append(moving(target, query));
  main.append(el("section", { class: "panel", "aria-labelledby": "overrides-title" },
    el("div", { class: "panel-head" }, el("h2", { id: "overrides-title" }, "Overrides and blocked groups"),
      el("p", { class: "quiet" }, "An override changes messages when they are next received.")),
    view.overrides));
  if (target.schedules) main.append(el("section", { class: "panel", "aria-labelledby": "schedules-title" },
    el("div", { class: "panel-head" }, el("h2", { id: "schedules-title" }, "Later and again"),
      el("p", { class: "quiet" }, "EventBridge Scheduler sends these, up to a minute after their time.")),
    view.schedules));
  if (!target.writes) main.prepend(el("h1", { class: "hidden-text" }, "Move"));
  read();
  if (target.schedules) readSchedules();
}

export function leave() {
  view = null;
}

function moving(target, query) {
  const places = target.outbox ? [["both", "lanes and outbox"], ["lanes", "lanes"], ["outbox", "outbox"]] : [["lanes", "lanes"]];
  const filter = form([
    { name: "id", title: "Id", hint: "of one message", suggest: "id" },
    { name: "kind", title: "Kind", hint: "such as order.*", suggest: "kind" },
    { name: "group", title: "Group", hint: "such as acme-*", suggest: "group" },
    { name: "source", title: "Source" },
    { name: "run", title: "Run", suggest: "run" },
    { name: "lowest", title: "From priority", kind: "number" },
    { name: "highest", title: "To priority", kind: "number" },
    { name: "in", title: "In", options: places },
    { name: "why", title: "Why", hint: "for the record" },
    { name: "exact", title: "exactly, not as patterns", kind: "flag" },
  ], query, { submit: "Prioritise to", onsubmit: () => act("prioritize") });
  const priority = el("input", { type: "number", value: "50", "aria-label": "New priority", id: "priority" });
  const act = (change) => {
    const { id, ...values } = filter.values();
    offer({ ...values, change, ids: id ? [id] : [], ...(change === "prioritize" ? { priority: priority.value } : {}) }, read);
  };
  const submit = filter.root.querySelector("button[type=submit]");
  submit.replaceWith(el("span", { class: "joined" }, el("button", { type: "submit", class: "primary" }, "Prioritise to"), priority),
    el("button", { type: "button", class: "danger", onclick: () => act("cancel") }, "Cancel …"));
  return el("section", { class: "panel", "aria-labelledby": "move-title" },
    el("div", { class: "panel-head" }, el("h1", { id: "move-title" }, "Move waiting work"),
      el("p", { class: "quiet" }, "Change its priority, and so its lane, or cancel it. You see a preview first.")),
    filter.root);
}

async function read() {
  const mine = view;
  if (!mine) return;
  try {
    const { overrides, cancelled, blocked, unread } = await ask("overrides", { since: "7d" });
    const offerOf = (fields, title) => el("button", { type: "button", onclick: () => offer(fields, read) }, title);
    const met = new Map(overrides.map((one) => [one.id, el("span", {}, "…")]));
    const acting = (cell) => (mine.target.writes ? [{ title: "", kind: "act", cell }] : []);
    mine.overrides.replaceChildren(
      table([...OVERRIDES, { title: "met", kind: "number", hint: "Messages that it has cancelled or moved", cell: (row) => met.get(row.id) }, ...acting((row) => offerOf({ change: "withdraw", override: row.id }, "Withdraw"))], overrides,
        { caption: "Overrides, the latest first", empty: "No override is active." }),
      unread.length ? el("p", { class: "quiet" }, `This release can't read these overrides: ${unread.join(", ")}.`) : "",
      el("h3", {}, "Groups behind a message without attempts left"),
      table([...BLOCKED, ...acting((row) => offerOf({ change: "cancel", ids: [row.id], in: "lanes" }, "Cancel"))], blocked,
        { caption: "Blocked groups, the longest blocked first", empty: "No group is blocked." }),
      el("h3", {}, "Messages cancelled in the last week"),
      table(CANCELLED, cancelled, { caption: "Cancelled messages, the latest first", empty: "No messages were cancelled." }));
    if (overrides.length) countMet(met);
  } catch (error) {
    mine.overrides.replaceChildren(faultBox(faultOf(error)));
  }
}

async function readSchedules() {
  const mine = view;
  try {
    const { periodic, later, has_more: hasMore } = await ask("schedules");
    mine.schedules.replaceChildren(
      table(PERIODIC, periodic, { caption: "Periodic messages", empty: "There is no periodic message." }),
      el("h3", {}, "Messages for later"),
      table(LATER, later, { caption: "Messages for later, by their times", empty: "No message for later waits." }),
      hasMore ? el("p", { class: "quiet" }, `More than ${later.length} wait; lanes scheduled list --limit shows them all.`) : "");
  } catch (error) {
    mine.schedules.replaceChildren(faultBox(faultOf(error)));
  }
}

/** The log of moved messages may be long, so the list is shown before it is read. */
async function countMet(cells) {
  let met = {};
  try {
    ({ met } = await ask("overrides_met"));
  } catch {
    // A dash: the count is unknown.
  }
  for (const [id, cell] of cells) cell.textContent = count(met[id]);
}

const who = (row) => el("span", { title: row.who }, row.who.split(":").at(-1));

const OVERRIDES = [
  { title: "override", kind: "id", cell: (row) => row.id },
  { title: "action", heads: true, cell: (row) => (row.action === "cancel" ? "cancel" : `prioritise to ${row.priority}`) },
  { title: "filter", kind: "long", cell: (row) => row.filter },
  { title: "why", kind: "long", cell: (row) => row.why },
  { title: "who", cell: who },
  { title: "since", kind: "when", value: (row) => row.created_at, cell: (row) => moment(row.created_at) },
  { title: "ends", kind: "when", value: (row) => row.expires_at, cell: (row) => moment(row.expires_at) },
];

const BLOCKED = [
  { title: "lane", cell: (row) => row.lane },
  { title: "group", heads: true, cell: (row) => row.group },
  { title: "kind", cell: (row) => row.kind },
  { title: "behind", kind: "id", cell: (row) => el("a", { href: `#trace?${new URLSearchParams({ id: row.id })}` }, row.id) },
  { title: "error", kind: "long", cell: (row) => row.error },
  { title: "since", kind: "when", value: (row) => row.since, cell: (row) => moment(row.since) },
  { title: "next try", kind: "when", value: (row) => row.next_at, cell: (row) => moment(row.next_at) },
];

const PERIODIC = [
  { title: "schedule", heads: true, cell: (row) => row.name },
  { title: "state", cell: (row) => el("span", { class: `chip ${row.state === "on" ? "good" : "warn"}` }, row.state) },
  { title: "kind", cell: (row) => row.kind },
  { title: "expression", cell: (row) => `${row.expression} ${row.timezone}` },
  { title: "group", kind: "id", cell: (row) => row.group },
  { title: "last", kind: "when", cell: (row) => row.last },
  { title: "next", kind: "when", cell: (row) => row.next },
];

const LATER = [
  { title: "not before", kind: "when", cell: (row) => row.not_before },
  { title: "kind", heads: true, cell: (row) => row.kind },
  { title: "id", kind: "id", cell: (row) => row.id },
  { title: "group", kind: "id", cell: (row) => row.group },
  { title: "priority", kind: "number", cell: (row) => String(row.priority) },
];

const CANCELLED = [
  { title: "at", kind: "when", value: (row) => row.cancelled_at, cell: (row) => moment(row.cancelled_at) },
  { title: "lane", cell: (row) => row.lane },
  { title: "kind", heads: true, cell: (row) => row.kind },
  { title: "id", kind: "id", cell: (row) => el("a", { href: `#trace?${new URLSearchParams({ id: row.id })}` }, row.id) },
  { title: "group", kind: "id", cell: (row) => row.group },
  { title: "who", cell: who },
  { title: "why", kind: "long", cell: (row) => row.why },
];
