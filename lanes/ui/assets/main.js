// The frame of the page: target, views, and the freshness of the data.

import { ask, faultBox, faultOf, Refused, takeToken, Unreached } from "./calls.js";
import { announce, byId, el, facts } from "./dom.js";
import { duration } from "./format.js";
import { present, showJobs } from "./change.js";
import * as audit from "./audit.js";
import * as check from "./check.js";
import * as deadLetters from "./dead_letters.js";
import * as events from "./events.js";
import * as lanes from "./lanes.js";
import * as move from "./move.js";
import * as outbox from "./outbox.js";
import * as trace from "./trace.js";

const VIEWS = [
  ["lanes", "Lanes", lanes],
  ["dead-letters", "Dead letters", deadLetters],
  ["outbox", "Outbox", outbox],
  ["move", "Move", move],
  ["events", "Events", events],
  ["trace", "Trace", trace],
  ["audit", "Audit", audit],
  ["check", "Check", check],
];
const LETTERS = Object.fromEntries(VIEWS.map(([name]) => [name[0], name]));
const LONGEST_WAIT = 30;
const HIDDEN_WAIT = 15;
const LONGEST_SHOWN = 3 * 3600;
const TOGETHER = 1500;

let goes = 0;
const state = { target: null, look: null, samples: [], lastAt: 0, wait: 0, fault: null, timer: null, shown: null };

start();

async function start() {
  takeToken();
  window.addEventListener("hashchange", () => {
    if (location.hash.startsWith("#token=")) takeToken();
    show();
  });
  document.addEventListener("visibilitychange", () => document.hidden || poll());
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });
  byId("keys").addEventListener("click", showKeys);
  listen();
  setInterval(showConnection, 1000);
  await open();
}

/** Load the target; without it there is nothing to show. */
async function open() {
  try {
    state.target = await ask("target");
  } catch (error) {
    state.fault = faultOf(error);
    byId("main").replaceChildren(el("div", { class: "panel" }, faultBox(state.fault)));
    showConnection();
    state.wait = Math.min(LONGEST_WAIT, Math.max(2, state.wait * 2));
    if (!isForeign(error)) setTimeout(open, state.wait * 1000);
    return;
  }
  state.wait = 0;
  showTarget();
  show();
  poll();
}

/** Whether the token belongs to another server: trying again does not help. */
const isForeign = (error) => error instanceof Refused && error.fault.status === 401;

function showTarget() {
  const { target } = state;
  document.title = `${target.stack} · Priority Lanes`;
  const at = target.endpoint ?? [target.profile, target.region].filter(Boolean).join(" · ");
  byId("where").replaceChildren(
    target.stacks.length > 1 ? switcher(target) : el("span", { class: "stack" }, target.stack),
    el("span", { class: "quiet" }, at),
    el("span", { class: "quiet", title: "Time zone of the page" }, Intl.DateTimeFormat().resolvedOptions().timeZone),
    target.who ? el("span", { class: "quiet who", title: target.who }, target.who.split(":").at(-1)) : "",
    el("span", { class: target.writes ? "chip write" : "chip", id: "mode" }, target.writes ? "changes allowed" : "read-only"));
}

/** Choose another stack; the address keeps it. */
function switcher({ stack, stacks }) {
  return el("select", { class: "stack", "aria-label": "Stack", id: "stacks",
    onchange: (event) => { location.search = `?${new URLSearchParams({ stack: event.target.value })}`; } },
  stacks.map((one) => el("option", { value: one, selected: one === stack }, one)));
}

function show() {
  const [name, query = ""] = location.hash.slice(1).split("?");
  const found = VIEWS.find(([id]) => id === name) ?? VIEWS[0];
  byId("nav").replaceChildren(...VIEWS
    .filter(([id]) => id !== "outbox" || state.target?.outbox)
    .map(([id, title]) => el("a", { href: `#${id}`, "aria-current": id === found[0] ? "page" : null }, title, badge(id))));
  byId("nav").scrollIntoView({ block: "nearest" });
  showTab();
  if (!state.target) return;
  byId("dialog").close();
  state.shown?.leave?.();
  const main = byId("main");
  main.replaceChildren();
  state.shown = found[2];
  state.shown.enter(main, { target: state.target, query: new URLSearchParams(query), state });
  if (state.look) state.shown.renew?.(state);
}

/** On a narrow screen, scroll the tab of the view into sight without moving the page. */
function showTab() {
  const tab = byId("nav").querySelector("[aria-current]");
  if (!tab) return;
  const [frame, box] = [byId("nav"), tab].map((one) => one.getBoundingClientRect());
  byId("nav").scrollLeft += (box.left + box.right - frame.left - frame.right) / 2;
}

function badge(id) {
  const dead = id === "dead-letters" && state.look?.lanes.reduce((sum, lane) => sum + lane.dead_letters, 0);
  return dead ? el("span", { class: "badge" }, dead.toLocaleString("en")) : null;
}

/** Poll the lanes at the interval of the server, more slowly while the page is hidden or calls fail. */
async function poll() {
  clearTimeout(state.timer);
  if (state.asking) return;
  state.asking = true;
  try {
    const look = await ask("lanes", { since: state.samples.at(-1)?.number ?? 0 });
    if (look.samples.length && look.samples[0].number <= (state.samples.at(-1)?.number ?? 0)) state.samples = [];
    state.samples.push(...look.samples);
    state.samples = state.samples.filter((sample) => sample.at > look.at - LONGEST_SHOWN);
    Object.assign(state, { look, lastAt: Date.now(), fault: null, wait: 0 });
    state.shown?.renew?.(state);
    const link = byId("nav").querySelector("a[href='#dead-letters']");
    const before = link?.textContent;
    link?.replaceChildren("Dead letters", badge("dead-letters") ?? "");
    if (link?.textContent !== before) showTab();
  } catch (error) {
    state.fault = faultOf(error);
    state.wait = Math.min(LONGEST_WAIT, Math.max(1, state.wait * 2));
    state.isGone = error instanceof Unreached;
    if (isForeign(error)) state.wait = LONGEST_WAIT;
  } finally {
    state.asking = false;
  }
  showConnection();
  if (state.target.writes) showJobs();
  const every = state.wait || (document.hidden ? HIDDEN_WAIT : state.look.every);
  state.nextAt = Date.now() + every * 1000;
  state.timer = setTimeout(poll, every * 1000);
}

/** Show whether the data is fresh; a banner explains errors. */
function showConnection() {
  const { look, lastAt, fault } = state;
  const age = lastAt ? (Date.now() - lastAt) / 1000 : null;
  const late = look && age > Math.max(5, 3 * look.every) && !document.hidden;
  const [kind, words] = fault
    ? [state.isGone ? "gone" : "stale", state.isGone ? "disconnected" : "stale"]
    : late ? ["stale", "stale"] : look ? ["live", "live"] : ["", "connecting"];
  const line = fault || late
    ? `${words}${lastAt ? `: as of ${duration(Math.round(age))} ago` : ""}${state.nextAt > Date.now() ? `, next try in ${Math.ceil((state.nextAt - Date.now()) / 1000)} s` : ""}`
    : words;
  const box = byId("connection");
  if (box.dataset.kind !== kind) announce(words);
  if (box.dataset.kind !== kind || box.textContent !== line) {
    box.dataset.kind = kind;
    box.replaceChildren(el("span", { class: "dot", "aria-hidden": "true" }), line);
  }
  document.body.dataset.connection = kind;
  const banner = byId("banner");
  const text = fault && lastAt ? fault.title + (fault.advice ?? "") : "";
  if (banner.dataset.text !== text) {
    banner.dataset.text = text;
    banner.hidden = !text;
    banner.replaceChildren(...(text ? [faultBox(fault)] : []));
  }
}

/** Keys: / for the filter, g and a letter for a view, ? for the list of keys. */
function listen() {
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping || byId("dialog").open) return;
    const view = Date.now() - goes < TOGETHER ? LETTERS[event.key] : null;
    goes = event.key === "g" ? Date.now() : 0;
    if (view) location.hash = `#${view}`;
    else if (event.key === "/") byId("main").querySelector(".filter input, .filter select")?.focus();
    else if (event.key === "?") showKeys();
    else return;
    event.preventDefault();
  });
}

function showKeys() {
  present("Keyboard", facts([
    ["/", "first field of the filter"],
    ...Object.entries(LETTERS).map(([key, view]) => [`g ${key}`, view.replace("-", " ")]),
    ["← →", "time, in the timeline"],
    ["Esc", "close a dialog"],
    ["?", "this list"],
  ]));
}
