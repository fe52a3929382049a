/* Answers of the server to what a page asks by itself. */

/** The answer, read to its end; undefined where none came or the line broke within it. */
export async function fetchWhole(address, options = {}) {
  try {
    const response = await fetch(address, { headers: { "HX-Request": "true" }, ...options });
    const { ok, status, redirected } = response;
    return { ok, status, redirected, away: response.headers.get("HX-Redirect"), text: await response.text() };
  } catch {
    return undefined;
  }
}

/** What a text says in JSON; undefined where it says something else, as a proxy's own page does. */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
