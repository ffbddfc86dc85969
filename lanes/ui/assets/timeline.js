// The timeline: a band for each lane, and bars for what CloudWatch counts by the minute, over one axis of time.

import { announce, el, svg } from "./dom.js";
import { clock, count, milliseconds, rate, UNKNOWN } from "./format.js";

const AREA = 58;
const BARS = 42;
const GAP = 22;
const FOOT = 20;
const STEPS = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200];
const LAYERS = ["held", "parked", "waiting"];

/** Counts of one lane over time: this page's own samples, and CloudWatch's minutes for the times without any. */
export function pointsOf(index, minutes, samples) {
  const sampled = new Set(samples.map((sample) => Math.floor(sample.at / 60)));
  const others = minutes
    .filter((one) => !sampled.has(Math.floor(one.at / 60)) && one.waiting !== null)
    .map((one) => ({ at: one.at, waiting: one.waiting, held: one.in_flight ?? 0, parked: 0, step: 60 }));
  return others.concat(samples.map((sample) => {
    const [waiting, inFlight, parked] = sample.counts[index];
    const aside = Math.min(parked ?? 0, inFlight);
    return { at: sample.at, waiting, held: inFlight - aside, parked: aside, step: 0 };
  })).sort((one, other) => one.at - other.at);
}

/** Bars by the minute, a layer for each lane; empty where CloudWatch has nothing. */
export function barsOf(lanes, history, field) {
  const byMinute = new Map();
  lanes.forEach(({ name }, index) => {
    for (const minute of history[name] ?? []) {
      if (!byMinute.has(minute.at)) byMinute.set(minute.at, lanes.map(() => 0));
      byMinute.get(minute.at)[index] += minute[field] ?? 0;
    }
  });
  return [...byMinute].sort(([one], [other]) => one - other).map(([at, values]) => ({ at, values }));
}

export class Timeline {
  constructor(lanes) {
    this.lanes = lanes;
    this.bands = [];
    this.cursor = null;
    this.picture = svg("svg", {
      class: "timeline", tabindex: "0", role: "group",
      "aria-label": "Timeline of the lanes. Left and right arrows move through time.",
      onpointermove: (event) => this.#point(event.offsetX),
      onpointerleave: () => this.#leave(),
      onkeydown: (event) => this.#key(event),
      onblur: () => this.#leave(),
    });
    this.tip = el("div", { class: "tip", hidden: true });
    this.root = el("div", { class: "timeline-box" }, this.picture, this.tip);
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  /** Show bands between two times, gaps where nothing was read for longer than `gap` seconds. */
  set({ areas, bars, marks, from, to, gap }) {
    Object.assign(this, { areas, bars: bars.filter((one) => one.points.length), marks, from, to, gap });
    this.draw();
  }

  draw() {
    const width = this.root.clientWidth;
    if (!width || !this.areas) return;
    this.width = width;
    const parts = [svg("defs", {}, this.lanes.map((_, index) => hatch(index)))];
    let top = 2;
    this.areas.forEach((area, index) => {
      parts.push(this.#area(area, index, top));
      top += AREA + GAP;
    });
    for (const one of this.bars) {
      parts.push(this.#bars(one, top));
      top += BARS + GAP;
    }
    const bottom = top - GAP;
    parts.unshift(this.#grid(bottom));
    parts.push(this.#marks(bottom));
    this.line = svg("line", { class: "cursor", y1: 0, y2: bottom, visibility: "hidden" });
    parts.push(this.line);
    this.picture.setAttribute("height", bottom + FOOT);
    this.picture.setAttribute("viewBox", `0 0 ${width} ${bottom + FOOT}`);
    this.picture.replaceChildren(...parts);
    if (this.cursor !== null) this.#show(this.cursor);
  }

  #x(at) {
    return ((at - this.from) / (this.to - this.from)) * this.width;
  }

  #grid(bottom) {
    const span = this.to - this.from;
    const step = STEPS.find((one) => span / one <= Math.max(3, this.width / 90)) ?? STEPS.at(-1);
    const lines = [];
    for (let at = Math.ceil(this.from / step) * step; at < this.to; at += step) {
      const x = this.#x(at);
      lines.push(svg("line", { class: "grid", x1: x, x2: x, y1: 0, y2: bottom }));
      if (x > 20 && x < this.width - 24) {
        lines.push(svg("text", { class: "tick", x, y: bottom + 14, "text-anchor": "middle" }, clock(at, step < 60)));
      }
    }
    return svg("g", {}, lines);
  }

  #area(points, index, top) {
    const seen = this.#thinned(points.filter((one) => one.at >= this.from - Math.max(this.gap, 2 * one.step) && one.at <= this.to));
    const peak = Math.max(0, ...seen.map(total));
    const y = (value) => top + AREA - (value / Math.max(1, peak)) * (AREA - 16);
    const known = runs(seen, this.gap);
    const layers = LAYERS.map((layer, height) => {
      const below = (one) => LAYERS.slice(0, height).reduce((sum, name) => sum + one[name], 0);
      const path = known.map((run) => {
        const up = this.#steps(run, (one) => y(below(one) + one[layer]));
        const back = this.#steps(run, (one) => y(below(one))).reverse();
        return `M${up.join("L")}L${back.join("L")}Z`;
      }).join("");
      return svg("path", { class: layer, d: path, fill: layer === "parked" ? `url(#hatch-${index})` : null });
    });
    return svg("g", { class: `lane-${index % 7}` },
      layers,
      // A whole line where nothing is known would look like an empty lane.
      svg("line", { class: "unknown", x1: 0, x2: this.width, y1: top + AREA, y2: top + AREA }),
      known.map((run) => svg("line", { class: "base", x1: this.#x(run[0].at), x2: this.#x(run.at(-1).at), y1: top + AREA, y2: top + AREA })),
      svg("text", { class: "name", x: 0, y: top + 10 }, this.lanes[index].name),
      svg("text", { class: "scale", x: this.width, y: top + 10, "text-anchor": "end" }, `peak ${seen.length ? count(peak) : UNKNOWN}`));
  }

  /** Points of a line on which each count holds until the next one: no message waits by half. */
  #steps(run, y) {
    const point = (at, one) => `${this.#x(at).toFixed(1)},${y(one).toFixed(1)}`;
    return run.flatMap((one, index) => [...(index ? [point(one.at, run[index - 1])] : []), point(one.at, one)]);
  }

  #bars({ title, points, write }, top) {
    const seen = points.filter((one) => one.at + 60 > this.from && one.at < this.to);
    const most = Math.max(0, ...seen.map((one) => one.values.reduce((sum, value) => sum + value, 0)));
    const wide = Math.max(1, (60 / (this.to - this.from)) * this.width - 1);
    const blocks = seen.flatMap((one) => {
      let y = top + BARS;
      return one.values.map((value, index) => {
        const high = most ? (value / most) * (BARS - 14) : 0;
        y -= high;
        return high ? svg("rect", { class: `bar lane-${index % 7}`, x: this.#x(one.at), y, width: wide, height: high }) : null;
      });
    });
    return svg("g", {},
      blocks,
      svg("line", { class: "unknown", x1: 0, x2: this.width, y1: top + BARS, y2: top + BARS }),
      seen.map((one) => svg("line", { class: "base", x1: this.#x(one.at), x2: this.#x(one.at + 60), y1: top + BARS, y2: top + BARS })),
      svg("text", { class: "name", x: 0, y: top + 10 }, title),
      svg("text", { class: "scale", x: this.width, y: top + 10, "text-anchor": "end" }, `peak ${seen.length ? write(most) : UNKNOWN}`));
  }

  #marks(bottom) {
    return svg("g", {}, this.marks.filter((one) => one.at >= this.from && one.at <= this.to).map((one) => {
      const x = this.#x(one.at);
      return svg("g", { class: "mark" },
        svg("title", {}, `${clock(one.at, true)} ${one.text}`),
        svg("line", { x1: x, x2: x, y1: 0, y2: bottom }),
        svg("path", { d: `M${x - 4},${bottom + 1}h8l-4,-7z` }));
    }));
  }

  /** Keep one point for each pixel, the highest, so that hours cost no more than minutes. */
  #thinned(points) {
    const kept = new Map();
    for (const one of points) {
      const column = Math.round(this.#x(one.at));
      const other = kept.get(column);
      if (!other || total(one) >= total(other)) kept.set(column, one);
    }
    return [...kept.values()];
  }

  #point(x) {
    this.#show(this.from + (x / this.width) * (this.to - this.from));
  }

  #key(event) {
    const step = (this.to - this.from) / 60;
    const moves = { ArrowLeft: -step, ArrowRight: step };
    if (event.key === "Escape") this.#leave();
    if (!(event.key in moves)) return;
    event.preventDefault();
    const at = Math.min(this.to, Math.max(this.from, (this.cursor ?? this.to) + moves[event.key]));
    this.#show(at);
    announce([...this.tip.children].map((one) => one.textContent).join(", "));
  }

  #leave() {
    this.cursor = null;
    this.tip.hidden = true;
    this.line?.setAttribute("visibility", "hidden");
  }

  #show(at) {
    this.cursor = at;
    const x = this.#x(at);
    this.line.setAttribute("x1", x);
    this.line.setAttribute("x2", x);
    this.line.setAttribute("visibility", "visible");
    const rows = this.areas.map((points, index) => this.#words(countAt(points, at, this.gap), index));
    const minute = this.bars.map(({ title, points, write }) => {
      const found = points.find((one) => one.at <= at && at < one.at + 60);
      return found ? el("div", {}, `${title}: `, found.values
        .map((value, index) => (value ? `${this.lanes[index].name} ${write(value)}` : null)).filter(Boolean).join(", ") || "none") : null;
    });
    const events = this.marks.filter((one) => Math.abs(this.#x(one.at) - x) < 5);
    this.tip.replaceChildren(el("div", { class: "quiet" }, clock(at, true)), ...rows, ...minute.filter(Boolean),
      ...events.map((one) => el("div", { class: "event" }, one.text)));
    this.tip.hidden = false;
    const left = x > this.width / 2 ? x - this.tip.offsetWidth - 12 : x + 12;
    this.tip.style.left = `${Math.max(0, left)}px`;
  }

  #words(point, index) {
    const name = el("span", { class: `key lane-${index % 7}` }, this.lanes[index].name);
    if (!point) return el("div", {}, name, " not known");
    const parked = point.parked ? `, ${count(point.parked)} parked` : "";
    return el("div", {}, name, ` ${count(point.waiting)} waiting, ${count(point.held)} in work${parked}`);
  }
}

const total = (one) => one.held + one.parked + one.waiting;

function hatch(index) {
  return svg("pattern", { id: `hatch-${index}`, class: `hatch lane-${index % 7}`, width: 5, height: 5,
    patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: 5, height: 5 }), svg("line", { x1: 0, y1: 0, x2: 0, y2: 5 }));
}

function runs(points, gap) {
  const found = [];
  let last = null;
  for (const one of points) {
    if (!last || one.at - last.at > Math.max(gap, 2.5 * Math.max(one.step, last.step))) found.push([]);
    found.at(-1).push(one);
    last = one;
  }
  return found.map((run) => {
    const end = run.at(-1);
    return [...run, { ...end, at: end.at + (end.step || (run.length === 1 ? gap / 4 : 0)) }];
  });
}

/** The count that holds at a time. */
function countAt(points, at, gap) {
  const last = points.findLast((one) => one.at <= at);
  return last && at - last.at <= Math.max(gap, last.step) ? last : null;
}

export const BAR_BANDS = [
  ["handled", "Handled per minute", rate],
  ["yields", "Yields per minute", rate],
  ["inversion", "Inversion: lower-lane work while a higher lane waited", milliseconds],
];
