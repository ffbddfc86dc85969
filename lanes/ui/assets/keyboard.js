// Keys: / for the filter, g and a letter for a view, ? for the list of keys.

import { present } from "./change.js";
import { byId, facts } from "./dom.js";

const TOGETHER = 1500;
const VIEWS = { l: "lanes", d: "dead-letters", o: "outbox", m: "move", e: "events", t: "trace", a: "audit", c: "check" };

let goes = 0;

export function listen() {
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping || byId("dialog").open) return;
    const view = Date.now() - goes < TOGETHER ? VIEWS[event.key] : null;
    goes = event.key === "g" ? Date.now() : 0;
    if (view) location.hash = `#${view}`;
    else if (event.key === "/") byId("main").querySelector(".filter input, .filter select")?.focus();
    else if (event.key === "?") showKeys();
    else return;
    event.preventDefault();
  });
}

export function showKeys() {
  present("Keyboard", facts([
    ["/", "first field of the filter"],
    ...Object.entries(VIEWS).map(([key, view]) => [`g ${key}`, view.replace("-", " ")]),
    ["← →", "time, in the timeline"],
    ["Esc", "close a dialog"],
    ["?", "this list"],
  ]));
}
