// Calls to the server of this page, with its token, and their errors: the meaning, the next step, the details of AWS.

import { el } from "./dom.js";

const KEY = "lanes-token";

/** A refused call; `fault` has title, advice and details. */
export class Refused extends Error {
  constructor(fault) {
    super(fault.title);
    this.fault = fault;
  }
}

/** No answer. */
export class Unreached extends Error {}

/** Move the token from the address, where it could be copied, to the storage of this origin. */
export function takeToken() {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (!found) return;
  localStorage.setItem(KEY, found[1]);
  history.replaceState(null, "", "#lanes");
}

export async function ask(name, fields = {}, { signal } = {}) {
  let answer;
  try {
    answer = await fetch(`/api/${name}${location.search}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Lanes-Token": localStorage.getItem(KEY) ?? "" },
      body: JSON.stringify(fields),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreached("lanes ui does not answer", { cause: error });
  }
  const found = await answer.json().catch(() => null);
  if (answer.ok && found !== null) return found;
  throw new Refused(found ?? { status: answer.status, title: `the answer was ${answer.status}` });
}

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
