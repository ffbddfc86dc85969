// Changes: show a preview, ask for confirmation, show the progress.

import { ask, faultBox, faultOf } from "./calls.js";
import { announce, byId, el, facts, table } from "./dom.js";
import { moment } from "./format.js";

const FOLLOW_EVERY = 500;

/** Preview a change, ask, start it and follow it; `then` is called at its end. */
export async function offer(fields, then = () => {}) {
  const dialog = byId("dialog");
  fill(dialog, "Preview", el("p", { class: "quiet" }, "Loading the preview …"), [closer(dialog, "Close")]);
  if (!dialog.open) dialog.showModal();
  const mine = (dialog.dataset.offer = String(Math.random()));
  try {
    const { plan, preview } = await ask("plan", fields);
    if (dialog.open && dialog.dataset.offer === mine) showPreview(dialog, plan, preview, then);
  } catch (error) {
    fill(dialog, "Not possible", faultBox(faultOf(error)), [closer(dialog, "Close")]);
  }
}

function showPreview(dialog, plan, preview, then) {
  const act = el("button", { type: "button", id: "act", class: preview.is_final ? "danger" : "primary",
    onclick: () => make(dialog, plan, then) }, preview.verb);
  const buttons = preview.is_empty ? [closer(dialog, "Close")] : [closer(dialog, preview.dismiss), act];
  const sure = preview.is_final && !preview.is_empty ? sureness(act) : null;
  fill(dialog, preview.title, [
    el("ul", { class: "points" }, preview.points.map((point) => el("li", {}, point))),
    preview.is_empty ? el("p", {}, "This change has no effect.") : null,
    Object.entries(preview.counts).filter(([, counted]) => Object.values(counted).some((value) => value !== null)).map(countTable),
    preview.sample.length ? [el("h3", {}, "Sample"), sampleTable(preview.sample)] : null,
    sure,
  ], buttons);
  (sure?.querySelector("input") ?? buttons.at(-1)).focus();
}

/** A change that can't be undone takes one more step. */
function sureness(act) {
  act.disabled = true;
  return el("label", { class: "sure" },
    el("input", { type: "checkbox", onchange: (event) => { act.disabled = !event.target.checked; } }),
    " I understand that this can't be undone");
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
    const job = await ask("start", { plan });
    // Not with the next reading, which AWS may keep waiting.
    showJobs();
    await follow(dialog, job, then);
  } catch (error) {
    fill(dialog, "The change was not started", faultBox(faultOf(error)), [closer(dialog, "Close")]);
  }
}

/** List running changes in the header, so that a closed dialog can be opened again. */
export async function showJobs() {
  const box = byId("jobs");
  try {
    const { jobs } = await ask("jobs");
    box.replaceChildren(...jobs.map((job) => el("button", { type: "button", class: "chip write", title: "Show progress",
      onclick: () => {
        byId("dialog").showModal();
        follow(byId("dialog"), job);
      } }, job.expected ? `${job.title}: ${Math.floor((100 * job.done) / job.expected)} %` : `${job.title} …`)));
  } catch {
    // The header shows the lost connection.
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
    now.fault ? faultBox(now.fault) : null,
    now.state === "stopped" ? el("p", {}, `Stopped after ${now.done}. Finished items stay changed; the others are unchanged.`) : null,
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

/** Show content in the dialog without a change. */
export function present(title, content, buttons = []) {
  const dialog = byId("dialog");
  dialog.dataset.offer = "";
  fill(dialog, title, content, [...buttons, closer(dialog, "Close")]);
  if (!dialog.open) dialog.showModal();
}

/** A button that opens the trace of a message. */
export function tracing(id) {
  return el("button", { type: "button", onclick: () => {
    byId("dialog").close();
    location.hash = `#trace?${new URLSearchParams({ id })}`;
  } }, "Trace");
}
