// Shows what went wrong: what it means, what to do, and, folded away, what was said.

import { el } from "./dom.js";
import { Refused, Unreached } from "./calls.js";

export function troubleOf(error) {
  if (error instanceof Refused) return error.trouble;
  if (error instanceof Unreached) {
    return { title: "lanes ui does not answer", advice: "Was it ended in its terminal? Start it again and open the address that it prints." };
  }
  return { title: String(error) };
}

export function troubleBox(trouble) {
  return el("div", { class: "trouble" },
    el("strong", {}, trouble.title),
    trouble.advice ? el("p", {}, trouble.advice) : null,
    trouble.details ? el("details", {}, el("summary", {}, "What AWS said"), el("pre", {}, trouble.details)) : null);
}
