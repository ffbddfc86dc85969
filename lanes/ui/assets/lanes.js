// The lanes: backlog, throughput and timeline.

import { ask, faultBox, faultOf } from "./calls.js";
import { offer } from "./change.js";
import { el } from "./dom.js";
import { clock, count, duration, milliseconds, NOT_YET, rate, UNKNOWN } from "./format.js";
import { BAR_BANDS, barsOf, pointsOf, Timeline } from "./timeline.js";
import { Runs } from "./runs.js";
import { symptomLines, Work } from "./work.js";

const WINDOWS = [[300, "5 min"], [900, "15 min"], [3600, "1 h"], [10800, "3 h"]];
const MINUTE = 60;
const SLOW = 30;
const LOG_EVERY = 10;
const RUNS_EVERY = 2;

let view = null;

export function enter(main, { target, state, query }) {
  view = {
    target,
    rows: new Map(),
    chosen: WINDOWS.some(([seconds]) => seconds === Number(query.get("span"))) ? Number(query.get("span")) : null,
    timeline: new Timeline(target.lanes),
    history: {},
    marks: [],
    engine: el("p", { class: "quiet", id: "engine" }),
    symptoms: el("div", { class: "notes", id: "symptoms" }),
    logged: el("div", { class: "notes", id: "logged-symptoms" }),
    notes: el("div", { class: "notes" }),
    past: el("p", { class: "quiet" }),
    slowAt: 0,
    runs: new Runs(),
    runsAt: 0,
    work: new Work(target.lanes),
    waits: new Map(),
    workAt: 0,
  };
  main.append(
    el("h1", { class: "hidden-text" }, "Lanes"),
    el("section", { class: "panel", "aria-label": "Lanes" }, view.logged, view.symptoms, laneTable(target), view.engine, view.notes),
    el("section", { class: "panel", "aria-labelledby": "timeline-title" },
      el("div", { class: "panel-head" }, el("h2", { id: "timeline-title" }, "Timeline"), legend(), windows(state)),
      view.timeline.root, view.past),
    view.runs.panel,
    ...view.work.panels);
}

export function leave() {
  view = null;
}

export function renew(state) {
  if (!view) return;
  const absent = state.look.figures_read ? NOT_YET : UNKNOWN;
  for (const lane of state.look.lanes) update(lane, trendOf(state.samples, state.look.lanes.indexOf(lane)), absent);
  const until = Math.max(...state.look.lanes.map((lane) => lane.figures.until ?? 0));
  view.engine.textContent = `${state.look.engine}${until ? `; columns from CloudWatch are of the 5 min until ${clock(until)}` : ""}`;
  view.symptoms.replaceChildren(...symptomLines(state.look.symptoms));
  view.notes.replaceChildren(...state.look.notes.map((note) => el("p", { class: "quiet" }, `Note: ${note}`)));
  draw(state);
  if (Date.now() / 1000 - view.slowAt > SLOW) slowly(state);
  if (Date.now() / 1000 - view.workAt > LOG_EVERY) readWork(state);
  if (Date.now() / 1000 - view.runsAt > RUNS_EVERY) readRuns();
}

/** Read the data that changes by the minute: CloudWatch's figures and the audit trail. */
async function slowly(state) {
  const mine = view;
  mine.slowAt = Date.now() / 1000;
  const [history, audit] = await Promise.allSettled([ask("history"), ask("audit", { since: "3h", limit: 100 })]);
  if (view !== mine) return;
  if (history.status === "fulfilled") mine.history = history.value.lanes;
  const isEmpty = !Object.values(mine.history).some((minutes) => minutes.length);
  const why = "CloudWatch has no metrics of these lanes: handled, yields and the time before you opened this page are unknown.";
  mine.past.replaceChildren(history.status === "rejected" ? faultBox(faultOf(history.reason)) : isEmpty ? why : "");
  if (audit.status === "fulfilled") {
    mine.marks = audit.value.changes.map((one) => ({ at: one.at, text: `${one.action} ${one.target}: ${one.outcome}` }));
  }
  draw(state);
}

/** Read the log of the function: waits, running invocations, failures and symptoms. */
async function readWork(state) {
  const mine = view;
  mine.workAt = Date.now() / 1000;
  try {
    const found = await ask("work");
    if (view !== mine) return;
    mine.waits = new Map(found.waits.filter((wait) => !wait.kind).map((wait) => [wait.lane, wait]));
    mine.work.show(found);
    mine.logged.replaceChildren(...symptomLines(found.symptoms, found.notes));
    for (const lane of state.look.lanes) updateWait(lane);
  } catch (error) {
    if (view !== mine) return;
    mine.work.fail(faultBox(faultOf(error)));
    mine.logged.replaceChildren(el("p", { class: "quiet" }, "Note: resources away and messages without a handler unknown: the log could not be read"));
  }
}

async function readRuns() {
  const mine = view;
  mine.runsAt = Date.now() / 1000;
  try {
    mine.runs.show(await ask("runs"));
  } catch (error) {
    mine.runs.fail(faultBox(faultOf(error)));
  }
}

/** The window of the timeline: the chosen one, or the shortest one with messages in a lane. */
function span(state) {
  const to = state.look.at;
  const isBusy = (minute) => minute.waiting || minute.in_flight || minute.handled;
  const hasData = (seconds) => Object.values(view.history).some((minutes) => minutes.some((one) => one.at > to - seconds && isBusy(one)))
    || state.samples.some((sample) => sample.at > to - seconds && sample.counts.some(([waiting, inFlight]) => waiting + inFlight));
  return view.chosen ?? (WINDOWS.find(([seconds]) => hasData(seconds)) ?? WINDOWS[0])[0];
}

function draw(state) {
  const to = state.look.at;
  const lanes = view.target.lanes;
  for (const one of view.windows.children) one.setAttribute("aria-pressed", String(Number(one.value) === span(state)));
  view.timeline.set({
    areas: lanes.map(({ name }, index) => pointsOf(index, view.history[name] ?? [], state.samples)),
    bars: BAR_BANDS.filter(([field]) => view.target.engine === "mappings" || field !== "inversion").map(([field, title, write]) => ({ title, write, points: barsOf(lanes, view.history, field) })),
    marks: view.marks,
    from: to - span(state),
    to,
    gap: Math.max(10, 5 * state.look.every),
  });
}

function windows(state) {
  const choices = WINDOWS.map(([seconds, title]) => el("button", { type: "button", value: seconds, onclick: () => {
    view.chosen = seconds;
    history.replaceState(null, "", `#lanes?span=${seconds}`);
    if (state.look) draw(state);
  } }, title));
  view.windows = el("div", { class: "choices", role: "group", "aria-label": "How far back" }, choices);
  return view.windows;
}

function legend() {
  return el("div", { class: "legend" }, [["waiting", "waiting"], ["held", "in work"], ["parked", "parked"], ["unknown", "not known"]]
    .map(([kind, title]) => el("span", {}, el("i", { class: `swatch ${kind}`, "aria-hidden": "true" }), title)));
}

/** Hints of columns that mean something else in the pull engine. */
const PULL_HINTS = {
  mapping: "Whether slots receive from the lane",
  flight: "Received and not deleted: being handled, in the hands of a slot, or parked",
  parked: "Those in flight that are invisible on purpose, in a backoff or beyond their tenant's share",
  inversion: "Not measured: a slot receives from the highest lane first",
  yields: "Records that yielded at a checkpoint or beyond their tenant's share; from CloudWatch, mean of five minutes",
};
const COLUMNS = [
  ["mapping", "state", "", "Of the event source mapping: what takes messages out of the lane"],
  ["waiting", "waiting", "number", "Visible messages; AWS calls its counts approximate"],
  ["flight", "in flight", "number", "Received and not deleted: being handled, held for a slot, or parked"],
  ["parked", "parked", "number", "Those in flight that are invisible on purpose, after a yield or in a backoff"],
  ["oldest", "oldest", "number", "Age of the oldest message, from CloudWatch"],
  ["trend", "trend", "number", "Change of waiting and in flight in the last minute, counted by this page"],
  ["p50", "wait p50", "number", "From sending to the start of the handler, half of the messages; from the log, of the time below"],
  ["p99", "wait p99", "number", "From sending to the start of the handler, 99 of 100 messages; from the log, of the time below"],
  ["inversion", "inversion/min", "number", "Time of this lane's work while a higher lane waited; from CloudWatch, mean of five minutes"],
  ["handled", "handled/min", "number", "From CloudWatch, mean of five minutes"],
  ["sent", "sent/min", "number", "From CloudWatch, mean of five minutes"],
  ["yields", "yields/min", "number", "Records that yielded to a higher lane; from CloudWatch, mean of five minutes"],
  ["drains", "drains in", "number", "At the change of the last minute, as counted by this page; at first since the latest count of CloudWatch"],
  ["dead", "dead letters", "number", "In the lane's dead-letter queue"],
];

function laneTable(target) {
  const body = el("tbody", {}, target.lanes.map((lane, index) => laneRow(lane, index, target)));
  return el("div", { class: "scroll" }, el("table", { class: "lanes" },
    el("caption", { class: "hidden-text" }, "Lanes, highest first"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "lane"),
      COLUMNS.map(([id, title, kind, hint]) => el("th", { scope: "col", class: kind,
        title: (target.engine === "pull" && PULL_HINTS[id]) || hint }, title)),
      target.writes ? el("th", { scope: "col" }, el("span", { class: "hidden-text" }, "change")) : null)),
    body));
}

function laneRow(lane, index, target) {
  const cells = Object.fromEntries(COLUMNS.map(([id, title, kind]) => [id, el("td", { class: kind, "data-label": title }, UNKNOWN)]));
  const button = target.writes ? el("button", { type: "button", disabled: true,
    onclick: () => offer({ change: cells.button.dataset.change, lane: lane.name }) }, "…") : null;
  cells.button = button;
  view.rows.set(lane.name, cells);
  const range = lane.threshold === null ? "the rest" : `≥ ${lane.threshold}`;
  return el("tr", { "data-lane": lane.name },
    el("th", { scope: "row", class: `lane-${index % 7}` }, el("span", { class: "lane-name" }, lane.name), " ",
      el("span", { class: "quiet", title: "Priorities of this lane" }, range)),
    COLUMNS.map(([id]) => cells[id]),
    button ? el("td", { class: "act" }, button) : null);
}

function update(lane, trend, absent) {
  const cells = view.rows.get(lane.lane);
  const { figures } = lane;
  const nothing = lane.waiting + lane.in_flight === 0;
  const drains = lane.drain === "falling" ? duration(lane.time_to_drain) : lane.drain;
  const figure = (write, value) => (value === null ? absent : write(value));
  const texts = {
    waiting: count(lane.waiting), flight: count(lane.in_flight), parked: count(lane.parked),
    oldest: nothing ? "none" : figure(duration, figures.oldest_age), trend,
    handled: figure(rate, figures.pace), sent: figure(rate, figures.arrivals), yields: figure(rate, figures.yields),
    drains, inversion: view.target.engine === "pull" ? UNKNOWN : figure(milliseconds, figures.inversion),
  };
  for (const [id, text] of Object.entries(texts)) {
    if (cells[id].textContent !== text) cells[id].textContent = text;
    cells[id].classList.toggle("nothing", text === UNKNOWN || text === NOT_YET || text === "0" || text === "0 ms" || text === "none" || text === "empty");
  }
  cells.drains.classList.toggle("bad", drains === "growing");
  updateWait(lane);
  setState(cells.mapping, lane.mapping);
  setDead(cells.dead, lane);
  setButton(cells.button, lane);
}

function updateWait(lane) {
  const wait = view.waits.get(lane.lane);
  for (const part of ["p50", "p99"]) {
    const cell = view.rows.get(lane.lane)[part];
    cell.textContent = wait ? duration(wait[part]) : UNKNOWN;
    cell.classList.toggle("nothing", !wait);
  }
}

const STATES = { Enabled: ["taking", "good"], Disabled: ["paused", "warn"], none: ["no mapping", "bad"] };

function setState(cell, mapping) {
  const [text, kind] = STATES[mapping] ?? [mapping?.toLowerCase() ?? "unknown", ""];
  if (cell.textContent !== text) cell.replaceChildren(el("span", { class: `chip ${kind}` }, text));
}

function setDead(cell, lane) {
  const text = count(lane.dead_letters);
  if (cell.textContent === text) return;
  cell.replaceChildren(lane.dead_letters ? el("a", { class: "bad", href: `#dead-letters?lane=${encodeURIComponent(lane.lane)}` }, text) : text);
  cell.classList.toggle("nothing", !lane.dead_letters);
}

function setButton(button, lane) {
  if (!button) return;
  const [change, text] = { Enabled: ["pause", "Pause"], Disabled: ["resume", "Resume"] }[lane.mapping] ?? ["", ""];
  button.hidden = !text;
  button.disabled = !text;
  if (button.dataset.change === change) return;
  button.dataset.change = change;
  button.textContent = text;
  button.setAttribute("aria-label", `${text} ${lane.lane}`);
}

/** The change of waiting and in flight in the last minute. */
function trendOf(samples, index) {
  const last = samples.at(-1);
  const from = samples.find((sample) => sample.at >= last.at - MINUTE);
  const seconds = last.at - from.at;
  if (seconds < 5) return NOT_YET;
  const depth = (sample) => sample.counts[index][0] + sample.counts[index][1];
  const change = Math.round(((depth(last) - depth(from)) / seconds) * MINUTE);
  if (!change) return "steady";
  return `${change > 0 ? "▲" : "▼"} ${Math.abs(change).toLocaleString("en")}/min`;
}
