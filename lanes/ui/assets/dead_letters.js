// Dead letters: listed on request, since SQS shows messages only by delivering them.

import { ask, faultBox, faultOf } from "./calls.js";
import { offer, present, tracing } from "./change.js";
import { el, facts, table } from "./dom.js";
import { form, remember } from "./form.js";
import { body, moment } from "./format.js";

const AGES = [["", "any time"], ["15m", "in the last 15 minutes"], ["1h", "in the last hour"], ["6h", "in the last 6 hours"], ["1d", "in the last day"], ["7d", "in the last week"]];

let view = null;

export function enter(main, { target, query }) {
  view = { target, chosen: new Set(), found: el("div", { id: "found" }), actions: el("div", { class: "actions" }) };
  view.form = form([
    { name: "lane", title: "Lane", options: [["", "all lanes"], ...target.lanes.map(({ name }) => [name, name])] },
    { name: "kind", title: "Kind", hint: "such as order.*", suggest: "kind" },
    { name: "group", title: "Group", suggest: "group" },
    { name: "reason", title: "Reason or error", hint: "a part of it", suggest: "error" },
    { name: "run", title: "Run", suggest: "run" },
    { name: "since", title: "Dead-lettered", options: AGES },
  ], query, { submit: "List", onsubmit: look });
  main.append(
    el("section", { class: "panel", "aria-labelledby": "dead-title" },
      el("div", { class: "panel-head" }, el("h1", { id: "dead-title" }, "Dead letters"),
        el("p", { class: "quiet" }, "Listing hides them from other readers for some seconds and raises their receive counts. At most ten of a group are visible.")),
      view.form.root, view.actions, view.found));
  look();
}

export function leave() {
  view = null;
}

/** List the queues of the selected lanes concurrently, and show each as it arrives. */
async function look() {
  const mine = view;
  const { lane, ...filter } = mine.form.values();
  const lanes = lane ? [lane] : mine.target.lanes.map(({ name }) => name);
  const round = (mine.round = (mine.round ?? 0) + 1);
  Object.assign(mine, { letters: new Map(), beyond: [], faults: [], waiting: lanes.length });
  mine.chosen.clear();
  mine.found.setAttribute("aria-busy", "true");
  mine.actions.replaceChildren();
  mine.found.replaceChildren(el("p", { class: "quiet" }, "Loading …"));
  await Promise.all(lanes.map(async (name) => {
    try {
      const { letters, beyond } = await ask("dead_letters", { ...filter, lane: name });
      if (mine.round !== round) return;
      mine.letters.set(name, letters);
      remember("kind", ...letters.map((letter) => letter.kind));
      remember("group", ...letters.map((letter) => letter.group));
      remember("error", ...letters.flatMap((letter) => [letter.error, letter.reason]));
      remember("id", ...letters.map((letter) => letter.id || letter.message_id));
      if (beyond) mine.beyond.push(`${name} about ${beyond.toLocaleString("en")}`);
    } catch (error) {
      mine.faults.push(faultBox(faultOf(error)));
    }
    mine.waiting -= 1;
    if (view === mine && mine.round === round) showFound();
  }));
  mine.found.removeAttribute("aria-busy");
}

/** All dead letters, in the order of the lanes. */
const found = () => view.target.lanes.flatMap(({ name }) => view.letters.get(name) ?? []);

function showFound() {
  const letters = found();
  const more = view.beyond.length ? `Not listed, because they are over the limit, behind the first ten of their group, or hidden by another reader: ${view.beyond.join(", ")}.` : "";
  view.found.replaceChildren(
    ...view.faults,
    letters.length || !view.waiting ? table([...choosing(letters), ...COLUMNS], letters, { caption: "Dead letters", empty: "No dead letters match." }) : "",
    el("p", { class: "quiet" }, view.waiting ? "Loading …" : more));
  showActions();
}

const COLUMNS = [
  { title: "kind", heads: true, cell: (row) => el("button", { type: "button", class: "link", onclick: () => show(row) }, row.kind || "no event") },
  { title: "id", kind: "id", cell: (row) => row.id || row.message_id },
  { title: "group", kind: "id", cell: (row) => row.group },
  { title: "lane", cell: (row) => row.lane },
  { title: "dead-lettered", kind: "when", value: (row) => row.given_up_at, cell: (row) => moment(row.given_up_at) },
  { title: "attempts", kind: "number", cell: (row) => String(row.attempts ?? "–") },
  { title: "reason", kind: "long", cell: (row) => [row.reason, row.error ? el("div", { class: "quiet clamp" }, row.error) : ""] },
];

/** Checkboxes, if changes are allowed. */
function choosing(letters) {
  if (!view.target.writes) return [];
  const boxes = new Map(letters.map((letter) => [letter.message_id, el("input", { type: "checkbox",
    "aria-label": `select ${letter.id || letter.message_id}`,
    checked: view.chosen.has(letter.message_id), onchange: (event) => {
      view.chosen[event.target.checked ? "add" : "delete"](letter.message_id);
      showActions();
    } })]));
  return [{ title: "", kind: "box", cell: (row) => boxes.get(row.message_id) }];
}

/** A change works on one lane: that of the filter, or of the selected letters. */
function showActions() {
  const letters = found();
  const chosen = letters.filter((letter) => view.chosen.has(letter.message_id));
  const lanes = new Set((chosen.length ? chosen : letters).map((letter) => letter.lane));
  if (!view.target.writes || !letters.length) return view.actions.replaceChildren();
  const lane = [...lanes][0];
  const what = chosen.length ? `${chosen.length} selected` : "all that match";
  const button = (change, title, kind) => el("button", { type: "button", class: kind, disabled: lanes.size > 1, onclick: () => offer(fields(change, lane, chosen), look) }, title);
  view.actions.replaceChildren(
    button("redrive", `Redrive ${what} …`, "primary"),
    button("delete", `Delete ${what} …`, "danger"),
    lanes.size > 1 ? el("span", { class: "quiet" }, "To make changes, choose a lane, or select dead letters of one lane.") : "");
}

function fields(change, lane, chosen) {
  const values = { ...view.form.values(), change, lane };
  return chosen.length ? { change, lane, ids: chosen.map((letter) => letter.message_id) } : { ...values, all: change === "delete" };
}

async function show(row) {
  present("Dead letter", el("p", { class: "quiet" }, "Loading …"));
  try {
    const letter = await ask("dead_letter", { lane: row.lane, id: row.message_id });
    const times = { given_up_at: "dead-lettered", sent_at: "sent", first_received_at: "first received" };
    const named = Object.entries(letter).filter(([name]) => !["body", "attributes", "code"].includes(name));
    const act = (change, title) => el("button", { type: "button", onclick: () => offer({ change, lane: row.lane, ids: [row.message_id] }, look) }, title);
    present(`Dead letter of ${row.lane}`, [
      facts(named.map(([name, value]) => [times[name] ?? name.replaceAll("_", " "), value === null ? null : name in times ? moment(value) : String(value)])),
      Object.keys(letter.attributes).length ? [el("h3", {}, "Attributes"), el("pre", {}, JSON.stringify(letter.attributes, null, 2))] : null,
      el("h3", {}, "Body"), el("pre", { tabindex: "0" }, body(letter.body)),
    ], [tracing(letter.id || row.message_id), ...(view?.target.writes ? [act("redrive", "Redrive …"), act("delete", "Delete …")] : [])]);
  } catch (error) {
    present("Dead letter", faultBox(faultOf(error)));
  }
}
