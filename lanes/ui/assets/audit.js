// The audit trail: changes that operators made.

import { ask, faultBox, faultOf } from "./calls.js";
import { el, table } from "./dom.js";
import { moment } from "./format.js";

export async function enter(main) {
  const found = el("div", {}, el("p", { class: "quiet" }, "Loading …"));
  main.append(el("section", { class: "panel", "aria-labelledby": "audit-title" },
    el("div", { class: "panel-head" }, el("h1", { id: "audit-title" }, "Audit"),
      el("p", { class: "quiet" }, "An entry is written before its change and updated after it. One that stays started was killed.")), found));
  try {
    const { changes, outbox } = await ask("audit", { since: "30d" });
    const rows = [...changes.map(ofLanes), ...outbox.map(ofOutbox)].sort((one, other) => other.at - one.at);
    found.replaceChildren(table(COLUMNS, rows, { caption: "Changes, latest first", empty: "No changes in 30 days." }));
  } catch (error) {
    found.replaceChildren(faultBox(faultOf(error)));
  }
}

const KINDS = { done: "good", started: "warn", interrupted: "warn" };
const COLUMNS = [
  { title: "at", kind: "when", value: (row) => row.at, cell: (row) => moment(row.at) },
  { title: "action", heads: true, cell: (row) => row.action },
  { title: "target", cell: (row) => row.target },
  { title: "outcome", cell: (row) => el("span", { class: `chip ${KINDS[row.outcome] ?? "bad"}`, title: row.outcome }, row.outcome) },
  { title: "details", kind: "long", cell: (row) => row.details },
  { title: "who", cell: (row) => el("span", { title: row.who }, row.who.split(":").at(-1)) },
];

function ofLanes(one) {
  const details = Object.entries(one.details).filter(([, value]) => value !== "").map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`);
  return { ...one, details: details.join(", ") };
}

function ofOutbox(one) {
  const details = `${one.filter}; ${one.before} → ${one.after}; ${one.changed} changed`;
  return { at: one.at, action: one.action, target: "outbox", outcome: "done", details, who: one.who };
}
