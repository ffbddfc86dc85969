// Shows an error: its meaning, the next step, and the details of AWS.

import { el } from "./dom.js";
import { Refused, Unreached } from "./calls.js";

export function faultOf(error) {
  if (error instanceof Refused) return error.fault;
  if (error instanceof Unreached) {
    return { title: "lanes ui does not answer", advice: "If you stopped it in its terminal, start it again and open the address that it prints." };
  }
  return { title: String(error) };
}

export function faultBox(fault) {
  return el("div", { class: "fault" },
    el("strong", {}, fault.title),
    fault.advice ? el("p", {}, fault.advice) : null,
    fault.details ? el("details", {}, el("summary", {}, "Details from AWS"), el("pre", {}, fault.details)) : null);
}
