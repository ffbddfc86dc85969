// Changes: what would happen is shown first, then the operator decides, then how it goes is shown.

import { ask } from "./calls.js";
import { announce, byId, el, facts, table } from "./dom.js";
import { moment } from "./format.js";
import { troubleBox, troubleOf } from "./trouble.js";

const FOLLOW_EVERY = 500;

/** Preview a change, ask, make it, follow it; `then` is called after it was made. */
export async function offer(fields, then = () => {}) {
  const dialog = byId("dialog");
  fill(dialog, "Looking …", el("p", { class: "quiet" }, "What is meant is being looked at."), [closer(dialog, "Cancel")]);
  if (!dialog.open) dialog.showModal();
  const mine = (dialog.dataset.offer = String(Math.random()));
  try {
    const { plan, preview } = await ask("plan", fields);
    if (dialog.open && dialog.dataset.offer === mine) showPreview(dialog, plan, preview, then);
  } catch (error) {
    fill(dialog, "That can't be done", troubleBox(troubleOf(error)), [closer(dialog, "Close")]);
  }
}

function showPreview(dialog, plan, preview, then) {
  const act = el("button", { type: "button", id: "act", class: preview.is_final ? "danger" : "primary",
    onclick: () => make(dialog, plan, then) }, preview.verb);
  const buttons = preview.is_empty ? [closer(dialog, "Close")] : [closer(dialog, "Cancel"), act];
  const sure = preview.is_final && !preview.is_empty ? sureness(act) : null;
  fill(dialog, preview.title, [
    el("ul", { class: "points" }, preview.points.map((point) => el("li", {}, point))),
    preview.is_empty ? el("p", {}, "There is nothing to do.") : null,
    Object.entries(preview.counts).filter(([, counted]) => Object.values(counted).some((value) => value !== null)).map(countTable),
    preview.sample.length ? [el("h3", {}, "Among them"), sampleTable(preview.sample)] : null,
    sure,
  ], buttons);
  (sure?.querySelector("input") ?? buttons.at(-1)).focus();
}

/** What can't be undone takes one more step. */
function sureness(act) {
  act.disabled = true;
  return el("label", { class: "sure" },
    el("input", { type: "checkbox", onchange: (event) => { act.disabled = !event.target.checked; } }),
    " I know that this can't be undone");
}

function countTable([title, counted]) {
  return el("div", { class: "counted" }, el("h3", {}, `By ${title}`.replace("By now", "Now")),
    facts(Object.entries(counted).map(([name, value]) => [name, typeof value === "number" ? value.toLocaleString("en") : value])));
}

const HIDDEN_COLUMNS = new Set(["message_id", "error", "last_error", "lane"]);

export function sampleTable(rows) {
  const names = Object.keys(rows[0]).filter((name) => !HIDDEN_COLUMNS.has(name));
  const kinds = { id: "id", group: "id", given_up_at: "when", created_at: "when", attempts: "number", priority: "number" };
  return table(names.map((name) => ({ title: name.replaceAll("_", " ").replace(" at", ""), kind: kinds[name],
    cell: (row) => (name.endsWith("_at") ? moment(row[name]) : String(row[name] ?? "")) })), rows, { caption: "Sample" });
}

async function make(dialog, plan, then) {
  try {
    await follow(dialog, await ask("start", { plan }), then);
  } catch (error) {
    fill(dialog, "It did not happen", troubleBox(troubleOf(error)), [closer(dialog, "Close")]);
  }
}

/** Say in the frame which changes go on, so that one whose dialog was closed is found again. */
export async function showJobs() {
  const box = byId("jobs");
  try {
    const { jobs } = await ask("jobs");
    box.replaceChildren(...jobs.map((job) => el("button", { type: "button", class: "chip write", title: "Show how far it is",
      onclick: () => {
        byId("dialog").showModal();
        follow(byId("dialog"), job);
      } }, job.expected ? `${job.title}: ${Math.floor((100 * job.done) / job.expected)} %` : `${job.title} …`)));
  } catch {
    // The frame says by itself that there is no connection.
  }
}

/** Show a job until it ends; closing the dialog leaves it running. */
async function follow(dialog, job, then = () => {}) {
  const mine = (dialog.dataset.offer = job.id);
  const isShown = () => dialog.open && dialog.dataset.offer === mine;
  const bar = el("progress", { "aria-label": "progress" });
  const words = el("p", { class: "quiet" }, "");
  const stop = el("button", { type: "button", onclick: () => ask("stop", { id: job.id }) }, "Stop");
  fill(dialog, job.title, [bar, words], [stop, closer(dialog, "Leave it running")]);
  let now = job;
  while (now.state === "running") {
    if (now.expected) {
      bar.max = now.expected;
      bar.value = Math.min(now.done, now.expected);
    }
    words.textContent = now.said || (now.expected ? `${now.done.toLocaleString("en")} of about ${now.expected.toLocaleString("en")}` : now.done ? `${now.done.toLocaleString("en")} done` : "");
    await new Promise((resolve) => setTimeout(resolve, FOLLOW_EVERY));
    now = await ask("job", { id: job.id });
  }
  then();
  showJobs();
  if (!isShown()) return announce(`${now.title}: ${now.state}`);
  const title = { done: "Done", stopped: "Stopped", failed: "Failed" }[now.state];
  fill(dialog, `${title}: ${now.title}`, [
    now.trouble ? troubleBox(now.trouble) : null,
    now.state === "stopped" ? el("p", {}, `Stopped after ${now.done}; what was done stays done, the rest is as it was.`) : null,
    facts(Object.entries(now.result).map(([name, value]) => [name.replaceAll("_", " "), String(value)])),
  ], [closer(dialog, "Close")]);
  dialog.querySelector("footer button").focus();
  announce(`${title}: ${now.title}`);
}

function closer(dialog, text) {
  return el("button", { type: "button", onclick: () => dialog.close() }, text);
}

function fill(dialog, title, content, buttons) {
  dialog.replaceChildren(el("h2", { id: "dialog-title" }, title), el("div", { class: "content" }, content), el("footer", {}, buttons));
}

/** Show something in the dialog that changes nothing. */
export function present(title, content, buttons = []) {
  const dialog = byId("dialog");
  dialog.dataset.offer = "";
  fill(dialog, title, content, [...buttons, closer(dialog, "Close")]);
  if (!dialog.open) dialog.showModal();
}

/** A button that leads to what became of a message. */
export function tracing(id) {
  return el("button", { type: "button", onclick: () => {
    byId("dialog").close();
    location.hash = `#trace?${new URLSearchParams({ id })}`;
  } }, "Trace");
}
