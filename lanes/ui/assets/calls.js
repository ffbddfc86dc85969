// Calls to the server of this page, and the token that it asks for.

const KEY = "lanes-token";

/** An answer that says no; `trouble` has title, advice, details. */
export class Refused extends Error {
  constructor(trouble) {
    super(trouble.title);
    this.trouble = trouble;
  }
}

/** No answer at all. */
export class Unreached extends Error {}

/** Take the token out of the address, where it would be seen and copied, and keep it for this origin alone. */
export function takeToken() {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (!found) return;
  localStorage.setItem(KEY, found[1]);
  history.replaceState(null, "", "#lanes");
}

export async function ask(name, fields = {}, { signal } = {}) {
  let answer;
  try {
    answer = await fetch(`/api/${name}`, {
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
