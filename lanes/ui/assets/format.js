// Writes numbers, durations and times for people.

export const UNKNOWN = "–";
export const NOT_YET = "not yet";

export function count(value) {
  return value === null || value === undefined ? UNKNOWN : Math.round(value).toLocaleString("en");
}

export function rate(value) {
  if (value === null || value === undefined) return UNKNOWN;
  return value > 0 && value < 10 ? value.toFixed(1) : count(value);
}

/** As the command writes it; a table of examples holds both to one rule. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  if (seconds <= 0) return "0 s";
  if (seconds < 1) return `${(seconds * 1000).toFixed(0)} ms`;
  if (seconds < 100) return `${Number(seconds.toPrecision(3))} s`;
  let left = Math.round(seconds);
  const figures = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]].map(([unit, length]) => {
    const whole = Math.floor(left / length);
    left -= whole * length;
    return [whole, unit];
  });
  const first = figures.findIndex(([whole]) => whole);
  return figures.slice(first, first + 2).filter(([whole]) => whole).map(([whole, unit]) => `${whole} ${unit}`).join(" ");
}

export function milliseconds(value) {
  return value === null || value === undefined ? UNKNOWN : duration(value / 1000);
}

const two = (number) => String(number).padStart(2, "0");

/** Time of day here, with the date where it is not today. */
export function moment(epoch) {
  if (epoch === null || epoch === undefined) return UNKNOWN;
  const at = new Date(epoch * 1000);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return at.toDateString() === new Date().toDateString() ? time : `${day} ${time}`;
}

export function clock(epoch, withSeconds = false) {
  const at = new Date(epoch * 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}${withSeconds ? `:${two(at.getSeconds())}` : ""}`;
}

export function ago(epoch) {
  return epoch === null || epoch === undefined ? UNKNOWN : `${duration(Math.round(Date.now() / 1000 - epoch))} ago`;
}

/** Indent JSON; anything else stays as it is. */
export function body(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
