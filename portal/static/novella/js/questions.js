/* Forms that ask the server as they are filled: an answer to what stood there before must not undo what was chosen since.

   Their questions wait for one another (hx-sync "queue last"): one that is cut off would be an error in the browser's log.
   What an answer says is announced to screen readers where it differs from before. A link can choose an option of the
   form, also one that is disabled: the form then asks as after any other choice. While a button is held down nothing is drawn anew: it would be another one that is let
   go, and the press would count for nothing. */
import { announce } from "./copy.js";

const changes = new WeakMap(); // of each form, how often it was changed
const asked = new WeakMap(); // of each question, how often by then
let announced = "";
let isPressed = false;
let heldBack; // the form whose answer came while something was held down

export function startQuestions() {
  for (const kind of ["input", "change"]) document.addEventListener(kind, note, true); // before other handlers
  document.addEventListener("htmx:beforeRequest", ({ detail }) => asked.set(detail.xhr, seen(detail.elt)));
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const { elt, verb } = detail.requestConfig;
    if (verb !== "post" || !elt.matches("[hx-sync]")) return;
    if (isPressed) heldBack = elt.closest("form");
    if (isPressed || asked.get(detail.xhr) !== seen(elt)) detail.shouldSwap = false;
  });
  document.addEventListener("pointerdown", () => (isPressed = true), true);
  for (const kind of ["pointerup", "pointercancel"]) document.addEventListener(kind, letGo, true);
  document.addEventListener("htmx:afterSettle", announceNewest);
  document.addEventListener("click", choose);
  announced = words();
}

/** Select the option that a link names, as if it had been clicked. */
function choose(event) {
  const option = document.getElementById(event.target.closest?.("[data-choose]")?.dataset.choose ?? "");
  if (!option) return;
  event.preventDefault();
  option.disabled = false;
  option.checked = true;
  option.focus();
  for (const kind of ["input", "change"]) option.dispatchEvent(new Event(kind, { bubbles: true }));
}

/** Ask again what was held back, unless the press has sent the form. */
function letGo() {
  const form = heldBack;
  isPressed = false;
  heldBack = undefined;
  if (form) setTimeout(() => form.dataset.sent || form.dispatchEvent(new Event("change", { bubbles: true })));
}

/** What a page's answer says, as one text. */
function words() {
  return [...document.querySelectorAll("[data-to-say]")].map((part) => part.innerText.trim().replace(/\.$/, "")).join(". ");
}

function announceNewest() {
  const newest = words();
  if (newest && newest !== announced) announce(newest);
  announced = newest;
}

function note({ target }) {
  const form = target.closest?.("form");
  if (form) changes.set(form, seen(form) + 1);
}

function seen(element) {
  return changes.get(element.closest("form")) ?? 0;
}
