/* Picking rows, and the bar that tells how many are picked. */
import { pickedOutOfSight } from "./window.js";
import { gettext } from "./words.js";
export function startTables() {
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-bulk]");
    if (!form) return;
    if (event.target.matches("[data-pick-all]")) {
      for (const box of form.querySelectorAll("[data-pick]")) box.checked = event.target.checked;
    }
    count(form);
  });
  document.addEventListener("novella:changed", () => document.querySelectorAll("form[data-bulk]").forEach(count));
  document.querySelectorAll("form[data-bulk]").forEach(count);
}

function count(form) {
  const boxes = [...form.querySelectorAll("[data-pick]")];
  const away = pickedOutOfSight(form);
  const picked = boxes.filter((box) => box.checked).length + away;
  const all = form.querySelector("[data-pick-all]");
  if (all) {
    all.checked = picked > 0 && picked === boxes.length + away;
    all.indeterminate = picked > 0 && picked < boxes.length + away;
  }
  const everything = form.querySelector("[data-bulk-everything]");
  if (everything) {
    everything.hidden = boxes.length === 0 || picked < boxes.length + away;
    if (everything.hidden) everything.querySelector("input").checked = false;
  }
  const bar = form.querySelector("[data-bulk-bar]");
  if (!bar) return;
  bar.hidden = picked === 0;
  const words = form.querySelector("[data-bulk-count]");
  const noun = picked === 1 ? form.dataset.noun : form.dataset.nouns ?? `${form.dataset.noun}s`;
  const text = gettext("{count} {noun} picked", { count: picked, noun });
  if (words.textContent !== text) words.textContent = text;
}
