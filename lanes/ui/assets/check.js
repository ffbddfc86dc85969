// Findings about the deployment.

import { ask, faultBox, faultOf } from "./calls.js";
import { el, table } from "./dom.js";

export async function enter(main) {
  const found = el("div", {}, el("p", { class: "quiet" }, "Checking queues, mappings, function, permissions and quotas …"));
  main.append(el("section", { class: "panel", "aria-labelledby": "check-title" },
    el("div", { class: "panel-head" }, el("h1", { id: "check-title" }, "Check"),
      el("p", { class: "quiet" }, "Changes nothing. A finding that can't be checked is unknown.")), found));
  try {
    const { findings } = await ask("check");
    const order = ["wrong", "unknown", "note", "ok"];
    findings.sort((one, other) => order.indexOf(one.verdict) - order.indexOf(other.verdict));
    found.replaceChildren(table(COLUMNS, findings, { caption: "Findings", empty: "No findings." }));
  } catch (error) {
    found.replaceChildren(faultBox(faultOf(error)));
  }
}

const KINDS = { ok: "good", wrong: "bad", unknown: "warn" };
const COLUMNS = [
  { title: "verdict", cell: (row) => el("span", { class: `chip ${KINDS[row.verdict] ?? ""}` }, row.verdict) },
  { title: "subject", heads: true, cell: (row) => row.subject },
  { title: "found", kind: "long", cell: (row) => row.found },
  { title: "advice", kind: "long", cell: (row) => row.advice },
];
