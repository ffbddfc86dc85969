// Events of the consumer from its log, some seconds late.

import { ask, faultBox, faultOf } from "./calls.js";
import { el } from "./dom.js";
import { form, remember } from "./form.js";
import { count, moment } from "./format.js";

const CHOICES = ["yields", "failures", "dead letters", "everything"];
const EVERY = 3000;
const WAIT_AFTER_ERROR = 10000;
const SHOWN = 100;

let view = null;

export function enter(main, { target, query }) {
  // The pull engine hardly yields.
  const usual = target.engine === "pull" ? "everything" : "yields";
  const choice = CHOICES.includes(query.get("choice")) ? query.get("choice") : usual;
  view = { choice, events: [], sum: el("div", { class: "sums" }), rows: el("tbody", {}), state: el("p", { class: "quiet" }, "Searching the log …"),
    fault: el("div", {}), isPaused: false };
  view.form = form([
    { name: "lane", title: "Lane", options: [["", "all lanes"], ...target.lanes.map(({ name }) => [name, name])] },
    { name: "kind", title: "Kind", hint: "a part of it", suggest: "kind" },
    { name: "group", title: "Group", hint: "a part of it", suggest: "group" },
    { name: "id", title: "Id", hint: "a part of it", suggest: "id" },
  ], query, { submit: "Filter", keep: { choice }, onsubmit: again });
  view.pause = el("button", { type: "button", "aria-pressed": "false", onclick: toggle }, "Pause");
  main.append(el("section", { class: "panel", "aria-labelledby": "events-title" },
    el("div", { class: "panel-head" }, el("h1", { id: "events-title" }, "Events"),
      el("p", { class: "quiet" }, "From the log of the function, some seconds late."),
      choices(), view.pause),
    view.form.root, view.sum, view.fault,
    el("div", { class: "scroll" }, el("table", { class: "events" },
      el("caption", { class: "hidden-text" }, "Events, the latest first"),
      el("thead", {}, el("tr", {}, ["time", "lane", "event", "messages", "why"].map((title) => el("th", { scope: "col" }, title)))),
      view.rows)),
    view.state));
  follow(view);
}

export function leave() {
  clearTimeout(view?.timer);
  view = null;
}

function choices() {
  return el("div", { class: "choices", role: "group", "aria-label": "Which events" }, CHOICES.map((choice) =>
    el("button", { type: "button", "aria-pressed": String(choice === view.choice), onclick: () => {
      location.hash = `#events?${new URLSearchParams({ ...view.form.values(), choice })}`;
    } }, choice)));
}

function toggle() {
  view.isPaused = !view.isPaused;
  view.pause.setAttribute("aria-pressed", String(view.isPaused));
  if (!view.isPaused) show();
}

async function follow(mine) {
  let wait = EVERY;
  try {
    if (!document.hidden) {
      const { events } = await ask("events", { choice: mine.choice, since: mine.events.at(-1)?.number ?? 0 });
      if (view !== mine) return;
      const known = new Set(mine.events.map((event) => event.id));
      const shown = events.flatMap((event) => event.messages);
      ["id", "kind", "group"].forEach((sort, index) => remember(sort, ...shown.map((message) => message[index])));
      mine.events = mine.events.concat(events.filter((event) => !known.has(event.id))).slice(-1000);
      mine.fault.replaceChildren();
      if (!mine.isPaused) show();
    }
  } catch (error) {
    if (view !== mine) return;
    mine.fault.replaceChildren(faultBox(faultOf(error)));
    wait = WAIT_AFTER_ERROR;
  }
  mine.timer = setTimeout(() => follow(mine), wait);
}

/** Show the events anew, after a change of the filter. */
function again() {
  view.rows.replaceChildren();
  show();
}

/** Whether an event is of the lane, and one of its messages matches; the filter is that of the page, the log is read once. */
function matches(event) {
  const { lane = "", id = "", kind = "", group = "" } = view.form.values();
  const isPart = (text, part) => text.toLowerCase().includes(part.toLowerCase());
  return (!lane || event.lane === lane) && (!(id || kind || group) ||
    event.messages.some(([one, two, three]) => isPart(one, id) && isPart(two, kind) && isPart(three, group)));
}

function show() {
  const { rows } = view;
  const events = view.events.filter(matches);
  const known = Number(rows.firstElementChild?.dataset.number ?? 0);
  rows.prepend(...events.filter((event) => event.number > known).slice(-SHOWN).reverse().map(row));
  while (rows.childElementCount > SHOWN) rows.lastElementChild.remove();
  view.state.textContent = events.length ? `${count(events.length)} in the last 15 minutes and since you opened this page` : "No such events in the last 15 minutes.";
  view.sum.replaceChildren(...(view.choice === "yields" ? sums(events) : []));
}

/** Yielded records by lane and higher lane. */
function sums(events) {
  const records = new Map();
  for (const event of events) {
    const key = `${event.lane} → ${event.to_lane || "unknown"}`;
    records.set(key, (records.get(key) ?? 0) + event.count);
  }
  return [...records].sort(([, one], [, other]) => other - one).map(([key, number]) =>
    el("div", { class: "tile" }, el("span", { class: "quiet" }, key), el("strong", {}, count(number))));
}

const KINDS = { yielded: "warn", failed: "bad", "dead-lettered": "bad", handled: "good", cancelled: "bad" };

function row(event) {
  return el("tr", { "data-number": event.number },
    el("td", { class: "id" }, moment(event.at)),
    el("th", { scope: "row" }, event.lane),
    el("td", {}, el("span", { class: `chip ${KINDS[event.what] ?? ""}` }, event.what)),
    el("td", {}, messages(event)),
    el("td", { class: "long" }, event.why));
}

function messages({ messages: first, count: number }) {
  if (!first.length) return "";
  const [id, kind, group] = first[0];
  const link = el("a", { href: `#trace?${new URLSearchParams({ id })}`, title: id }, id.length > 24 ? `${id.slice(0, 22)}…` : id);
  const kinds = new Set(first.map(([, one]) => one).filter(Boolean));
  const more = number > 1 ? el("span", { class: "quiet" }, ` and ${number - 1} more`) : null;
  return [link, more, el("div", { class: "quiet clamp" }, [...kinds].join(", "), number === 1 && group ? ` · ${group}` : "")];
}
