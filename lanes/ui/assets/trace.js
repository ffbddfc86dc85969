// The history of a message: every receive and its cause.

import { ask, faultBox, faultOf } from "./calls.js";
import { el, facts, table } from "./dom.js";
import { form, remember, rememberTrace, traced } from "./form.js";
import { moment } from "./format.js";

const AGES = [["1h", "the last hour"], ["6h", "the last 6 hours"], ["1d", "the last day"], ["4d", "the last 4 days"], ["14d", "the last 14 days"]];

let view = null;

export function enter(main, { query }) {
  view = { found: el("div", { id: "found" }), recent: el("p", { class: "quiet", id: "recent" }) };
  remember("id", ...traced());
  view.form = form([
    { name: "id", title: "Id of the message", hint: "its own id, or its id at SQS", wide: true, suggest: "id" },
    { name: "since", title: "Search the log of", options: AGES, initial: "1d" },
  ], query, { submit: "Trace", onsubmit: trace });
  main.append(el("section", { class: "panel", "aria-labelledby": "trace-title" },
    el("div", { class: "panel-head" }, el("h1", { id: "trace-title" }, "Trace"),
      el("p", { class: "quiet" }, "From the log of the function, the ledger, the outbox and the audit trail. No message is received.")),
    view.form.root, view.recent, view.found));
  showRecent();
  if (query.get("id")) trace();
  else view.form.root.querySelector("input").focus();
}

export function leave() {
  view = null;
}

function showRecent() {
  const ids = traced();
  view.recent.replaceChildren(...(ids.length ? ["Recent: ", ...ids.flatMap((id, index) => [index ? " · " : "",
    el("a", { href: `#trace?${new URLSearchParams({ id })}`, title: id }, id.length > 28 ? `${id.slice(0, 26)}…` : id)])] : []));
}

async function trace() {
  const mine = view;
  const values = mine.form.values();
  if (!values.id) return;
  rememberTrace(values.id);
  showRecent();
  mine.found.replaceChildren(el("p", { class: "quiet" }, "Searching the log …"));
  mine.found.setAttribute("aria-busy", "true");
  try {
    const answer = await ask("trace", values);
    mine.found.replaceChildren(...(answer.is_known ? known(answer.trace) : unknown(values.id, answer.since)),
      ...answer.notes.map((note) => el("p", { class: "quiet" }, `Note: ${note}`)));
  } catch (error) {
    mine.found.replaceChildren(faultBox(faultOf(error)));
  }
  mine.found.removeAttribute("aria-busy");
}

function known(found) {
  return [
    el("p", { class: "summary" }, el("strong", {}, "Now: "), found.status),
    facts([["id", found.id], ["kind", found.kind], ["group", found.group], ["id at SQS", found.message_ids.join(", ")]]),
    table(COLUMNS, found.steps, { caption: "Events, the earliest first", empty: "No events." }),
  ];
}

const KINDS = { handled: "good", failed: "bad", "dead-lettered": "bad", "crashed?": "bad", yielded: "warn", throttled: "warn", "not reported": "warn", cancelled: "bad" };
const COLUMNS = [
  { title: "time", kind: "id", cell: (row) => `${row.is_seen ? "" : "after "}${moment(row.at)}.${String(Math.floor((row.at % 1) * 1000)).padStart(3, "0")}` },
  { title: "lane", cell: (row) => row.lane },
  { title: "receive", kind: "number", cell: (row) => row.receive },
  { title: "event", cell: (row) => el("span", { class: `chip ${KINDS[row.what] ?? ""}` }, row.what) },
  { title: "why", kind: "long", cell: (row) => row.why },
];

function unknown(id, since) {
  return [
    el("p", {}, el("strong", {}, `Nothing was found for ${id}.`), ` Neither the log since ${moment(since)} nor the ledger mentions it. Possible reasons:`),
    el("ul", { class: "points" },
      el("li", {}, "It has not been received yet."),
      el("li", {}, "It is older: search more of the log."),
      el("li", {}, "SQS dead-lettered it by itself: ", el("a", { href: "#dead-letters" }, "list the dead letters"), "."),
      el("li", {}, "It is still in the outbox."),
      el("li", {}, "The function logs at a level above INFO, without the events of messages."),
      el("li", {}, "The id is wrong: give the id of the event, or the message id that SQS returned to the producer.")),
  ];
}
