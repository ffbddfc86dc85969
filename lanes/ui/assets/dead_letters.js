// Dead letters: looked at when somebody asks for it, since SQS shows messages only by handing them out.

import { ask } from "./calls.js";
import { offer, present, tracing } from "./change.js";
import { el, facts, table } from "./dom.js";
import { form } from "./form.js";
import { body, moment } from "./format.js";
import { troubleBox, troubleOf } from "./trouble.js";

const AGES = [["", "any time"], ["15m", "in the last 15 minutes"], ["1h", "in the last hour"], ["6h", "in the last 6 hours"], ["1d", "in the last day"], ["7d", "in the last week"]];

let view = null;

export function enter(main, { place, query }) {
  view = { place, chosen: new Set(), found: el("div", { id: "found" }), actions: el("div", { class: "actions" }) };
  view.form = form([
    { name: "lane", title: "Lane", options: [["", "all lanes"], ...place.lanes.map(({ name }) => [name, name])] },
    { name: "kind", title: "Kind", hint: "such as order.*" },
    { name: "group", title: "Group" },
    { name: "reason", title: "Reason or error", hint: "a part of it" },
    { name: "since", title: "Given up", options: AGES },
  ], query, { submit: "Look", onsubmit: look });
  main.append(
    el("section", { class: "panel", "aria-labelledby": "dead-title" },
      el("div", { class: "panel-head" }, el("h1", { id: "dead-title" }, "Dead letters"),
        el("p", { class: "quiet" }, "Looking hides them from others for some seconds and raises their receive counts, which mean nothing there; at most ten of a group can be seen at once.")),
      view.form.root, view.actions, view.found));
  look();
}

export function leave() {
  view = null;
}

/** Look through the queues of all lanes that are meant at once, and show each as it comes. */
async function look() {
  const mine = view;
  const { lane, ...filter } = mine.form.values();
  const lanes = lane ? [lane] : mine.place.lanes.map(({ name }) => name);
  const round = (mine.round = (mine.round ?? 0) + 1);
  Object.assign(mine, { letters: new Map(), beyond: [], troubles: [], waiting: lanes.length });
  mine.chosen.clear();
  mine.found.setAttribute("aria-busy", "true");
  mine.actions.replaceChildren();
  mine.found.replaceChildren(el("p", { class: "quiet" }, "Looking …"));
  await Promise.all(lanes.map(async (name) => {
    try {
      const { letters, beyond } = await ask("dead_letters", { ...filter, lane: name });
      if (mine.round !== round) return;
      mine.letters.set(name, letters);
      if (beyond) mine.beyond.push(`${name} about ${beyond.toLocaleString("en")}`);
    } catch (error) {
      mine.troubles.push(troubleBox(troubleOf(error)));
    }
    mine.waiting -= 1;
    if (view === mine && mine.round === round) showFound();
  }));
  mine.found.removeAttribute("aria-busy");
}

/** All that was found, in the order of the lanes. */
const found = () => view.place.lanes.flatMap(({ name }) => view.letters.get(name) ?? []);

function showFound() {
  const letters = found();
  const more = view.beyond.length ? `Not looked at, being beyond the limit, behind the first ten of their group, or held by someone else: ${view.beyond.join(", ")}.` : "";
  view.found.replaceChildren(
    ...view.troubles,
    letters.length || !view.waiting ? table([...choosing(letters), ...COLUMNS], letters, { caption: "Dead letters", empty: "There are no such dead letters." }) : "",
    el("p", { class: "quiet" }, view.waiting ? "Looking …" : more));
  showActions();
}

const COLUMNS = [
  { title: "kind", heads: true, cell: (row) => el("button", { type: "button", class: "link", onclick: () => show(row) }, row.kind || "no event") },
  { title: "id", kind: "id", cell: (row) => row.id || row.message_id },
  { title: "group", kind: "id", cell: (row) => row.group },
  { title: "lane", cell: (row) => row.lane },
  { title: "given up", kind: "when", cell: (row) => moment(row.given_up_at) },
  { title: "attempts", kind: "number", cell: (row) => String(row.attempts ?? "–") },
  { title: "reason", kind: "long", cell: (row) => [row.reason, row.error ? el("div", { class: "quiet clamp" }, row.error) : ""] },
];

/** Boxes to choose some: only where something can be done with them. */
function choosing(letters) {
  if (!view.place.writes) return [];
  const boxes = new Map(letters.map((letter) => [letter.message_id, el("input", { type: "checkbox",
    "aria-label": `choose ${letter.id || letter.message_id}`,
    checked: view.chosen.has(letter.message_id), onchange: (event) => {
      view.chosen[event.target.checked ? "add" : "delete"](letter.message_id);
      showActions();
    } })]));
  return [{ title: "", kind: "box", cell: (row) => boxes.get(row.message_id) }];
}

/** Changes work on one lane: that of the filter, or of what was chosen. */
function showActions() {
  const letters = found();
  const chosen = letters.filter((letter) => view.chosen.has(letter.message_id));
  const lanes = new Set((chosen.length ? chosen : letters).map((letter) => letter.lane));
  if (!view.place.writes || !letters.length) return view.actions.replaceChildren();
  const lane = [...lanes][0];
  const what = chosen.length ? `${chosen.length} chosen` : "all that match";
  const button = (change, title, kind) => el("button", { type: "button", class: kind, disabled: lanes.size > 1, onclick: () => offer(fields(change, lane, chosen), look) }, title);
  view.actions.replaceChildren(
    button("redrive", `Redrive ${what} …`, "primary"),
    button("delete", `Delete ${what} …`, "danger"),
    lanes.size > 1 ? el("span", { class: "quiet" }, "Choose a lane, or some of one lane, to change something.") : "");
}

function fields(change, lane, chosen) {
  const values = { ...view.form.values(), change, lane };
  return chosen.length ? { change, lane, ids: chosen.map((letter) => letter.message_id) } : { ...values, all: change === "delete" };
}

async function show(row) {
  present("Dead letter", el("p", { class: "quiet" }, "Looking …"));
  try {
    const letter = await ask("dead_letter", { lane: row.lane, id: row.message_id });
    const times = { given_up_at: "given up", sent_at: "sent", first_received_at: "first received" };
    const named = Object.entries(letter).filter(([name]) => !["body", "attributes"].includes(name));
    const act = (change, title) => el("button", { type: "button", onclick: () => offer({ change, lane: row.lane, ids: [row.message_id] }, look) }, title);
    present(`Dead letter of ${row.lane}`, [
      facts(named.map(([name, value]) => [times[name] ?? name.replaceAll("_", " "), value === null ? null : name in times ? moment(value) : String(value)])),
      Object.keys(letter.attributes).length ? [el("h3", {}, "Attributes"), el("pre", {}, JSON.stringify(letter.attributes, null, 2))] : null,
      el("h3", {}, "Body"), el("pre", { tabindex: "0" }, body(letter.body)),
    ], [tracing(letter.id || row.message_id), ...(view?.place.writes ? [act("redrive", "Redrive …"), act("delete", "Delete …")] : [])]);
  } catch (error) {
    present("Dead letter", troubleBox(troubleOf(error)));
  }
}
