// What became of a message: every receive of it and its cause.

import { ask } from "./calls.js";
import { el, facts, table } from "./dom.js";
import { form } from "./form.js";
import { moment } from "./format.js";
import { troubleBox, troubleOf } from "./trouble.js";

const AGES = [["1h", "the last hour"], ["6h", "the last 6 hours"], ["1d", "the last day"], ["4d", "the last 4 days"], ["14d", "the last 14 days"]];

let view = null;

export function enter(main, { query }) {
  view = { found: el("div", { id: "found" }) };
  view.form = form([
    { name: "id", title: "Id of the message", hint: "its own, or that of SQS", wide: true },
    { name: "since", title: "Look through the log of", options: AGES, usual: "1d" },
  ], query, { submit: "Trace", onsubmit: trace });
  main.append(el("section", { class: "panel", "aria-labelledby": "trace-title" },
    el("div", { class: "panel-head" }, el("h1", { id: "trace-title" }, "Trace"),
      el("p", { class: "quiet" }, "Read from the function's log, the ledger, the outbox and the audit trail; nothing is received to find out.")),
    view.form.root, view.found));
  if (query.get("id")) trace();
  else view.form.root.querySelector("input").focus();
}

export function leave() {
  view = null;
}

async function trace() {
  const mine = view;
  const values = mine.form.values();
  if (!values.id) return;
  mine.found.replaceChildren(el("p", { class: "quiet" }, "Looking through the log …"));
  mine.found.setAttribute("aria-busy", "true");
  try {
    const answer = await ask("trace", values);
    mine.found.replaceChildren(...(answer.is_known ? known(answer.trace) : unknown(values.id, answer.since)),
      ...answer.notes.map((note) => el("p", { class: "quiet" }, `Note: ${note}`)));
  } catch (error) {
    mine.found.replaceChildren(troubleBox(troubleOf(error)));
  }
  mine.found.removeAttribute("aria-busy");
}

function known(found) {
  return [
    el("p", { class: "standing" }, el("strong", {}, "Now: "), found.standing),
    facts([["id", found.id], ["kind", found.kind], ["group", found.group], ["SQS called it", found.message_ids.join(", ")]]),
    table(COLUMNS, found.steps, { caption: "What happened, the earliest first", empty: "No event tells of it." }),
  ];
}

const KINDS = { handled: "good", failed: "bad", "dead-lettered": "bad", "crashed?": "bad", yielded: "warn", throttled: "warn", cancelled: "bad" };
const COLUMNS = [
  { title: "time", kind: "id", cell: (row) => `${row.is_seen ? "" : "after "}${moment(row.at)}.${String(Math.floor((row.at % 1) * 1000)).padStart(3, "0")}` },
  { title: "lane", cell: (row) => row.lane },
  { title: "receive", kind: "number", cell: (row) => row.receive },
  { title: "what", cell: (row) => el("span", { class: `chip ${KINDS[row.what] ?? ""}` }, row.what) },
  { title: "why", kind: "long", cell: (row) => row.why },
];

function unknown(id, since) {
  return [
    el("p", {}, el("strong", {}, `Nothing is known of ${id}.`), ` The log since ${moment(since)} and the ledger don't name it. That can mean:`),
    el("ul", { class: "points" },
      el("li", {}, "it still waits for its first receive"),
      el("li", {}, "it is older: look through more of the log"),
      el("li", {}, "SQS gave it up by itself: ", el("a", { href: "#dead-letters" }, "look at the dead letters")),
      el("li", {}, "it never left the outbox"),
      el("li", {}, "the function logs at a level above INFO, which leaves out what becomes of messages"),
      el("li", {}, "the id is another one: it is the event's own id, or what SQS answered to whoever sent it")),
  ];
}
