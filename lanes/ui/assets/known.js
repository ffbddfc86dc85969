// Kinds, groups, ids and errors that this page has shown, for the suggestions of its filters.

const MOST = 200;
const KEPT = 8;
const TRACED = "lanes-traced";
const known = new Map();

/** Keep values of one sort, the latest first. */
export function remember(sort, ...values) {
  const others = known.get(sort) ?? [];
  known.set(sort, [...new Set([...values.filter(Boolean), ...others])].slice(0, MOST));
}

export const suggestions = (sort) => known.get(sort) ?? [];

/** Ids of the last traces of this browser. */
export function traced() {
  try {
    const found = JSON.parse(localStorage.getItem(TRACED) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string").slice(0, KEPT) : [];
  } catch {
    return [];
  }
}

export function rememberTrace(id) {
  localStorage.setItem(TRACED, JSON.stringify([id, ...traced().filter((one) => one !== id)].slice(0, KEPT)));
}
