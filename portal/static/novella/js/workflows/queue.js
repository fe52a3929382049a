/* News of a list that would move rows waits behind a button: nothing jumps away under the pointer or the focus. */
import { morph, parse } from "../live/morph.js";
import { newsOfWindow } from "../window.js";
import { gettext } from "../words.js";

let waiting;

/** Show what changed in place; true when more than that has changed, which then waits until it is asked for. */
export function holdBack(list, html) {
  const fresh = parse(html).find((element) => element.id === list.id);
  if (fresh) tellOfMissing(list, fresh);
  const news = fresh && newsOfWindow(list, fresh);
  if (news) return ofWindow(list, news);
  if (!list.hasAttribute("data-queue")) return false;
  const now = idsOf(list);
  const then = fresh ? idsOf(fresh) : [];
  if (!fresh || !now.length || String(now) === String(then)) return false;
  for (const row of list.querySelectorAll("[data-rows] > [id]")) {
    const after = fresh.querySelector(`#${CSS.escape(row.id)}`);
    if (after) morph(row, after.cloneNode(true));
  }
  waiting = { id: list.id, html };
  showChanges(list, now, then);
  return true;
}

/** Show missing cells at once, without waiting for pending changes. */
function tellOfMissing(list, fresh) {
  list.querySelector("[data-missing]")?.remove();
  const note = fresh.querySelector("[data-missing]");
  if (note) list.prepend(note.cloneNode(true));
}

/** New and deleted rows do not move a window by themselves: the reader would lose the place. */
function ofWindow(list, { come, gone }) {
  if (come || gone) say(list, [come && gettext("{count} new", { count: come }), gone && gettext("{count} removed", { count: gone })]);
  waiting = undefined;
  return true;
}

export function startQueue() {
  document.addEventListener("novella:missed", ({ detail }) => say(detail.list, [gettext("Many changes")]));
  document.addEventListener("novella:gone", ({ detail }) => ofWindow(detail.list, newsOfWindow(detail.list, detail.list)));
  // Where there is little room the facets wait folded.
  if (innerWidth < 1000) document.querySelectorAll("[data-fold-on-phones]").forEach((fold) => fold.removeAttribute("open"));
  document.addEventListener("click", ({ target }) => {
    if (!target.closest("[data-apply-news]")) return;
    if (target.closest("[data-list]").querySelector("[data-windowed]")) return location.reload();
    if (!waiting) return;
    const list = document.getElementById(waiting.id);
    const fresh = parse(waiting.html).find((element) => element.id === waiting.id);
    waiting = undefined;
    if (!list || !fresh) return;
    morph(list, fresh);
    list.querySelector("[data-rows] a")?.focus({ preventScroll: true });
    document.dispatchEvent(new CustomEvent("novella:changed"));
  });
}

function idsOf(list) {
  return [...list.querySelectorAll("[data-rows] > [id]")].map((row) => row.id);
}

function showChanges(list, now, then) {
  const come = then.filter((id) => !now.includes(id)).length;
  const gone = now.filter((id) => !then.includes(id)).length;
  const kept = then.filter((id) => now.includes(id));
  const moved = now.filter((id) => then.includes(id)).filter((id, at) => id !== kept[at]).length;
  say(list, [
    come && gettext("{count} new", { count: come }),
    gone && gettext("{count} removed", { count: gone }),
    moved && gettext("{count} moved", { count: moved }),
  ]);
}

function say(list, parts) {
  const summary = parts.filter(Boolean).join(", ");
  const place = list.querySelector("[data-needs-news]");
  if (!place) return;
  const words = place.querySelector("[data-news-words]");
  if (words.textContent !== summary) words.textContent = summary;
  place.hidden = false;
}
