/* Selection of rows, and the bar with their number. */
import { pickedOutOfSight } from "./window.js";
import { gettext } from "./words.js";
export function startTables() {
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-bulk]");
    if (!form) return;
    if (event.target.matches("[data-pick-all]")) {
      for (const box of shown(form)) box.checked = event.target.checked;
    }
    count(form);
  });
  document.addEventListener("novella:changed", () => document.querySelectorAll("form[data-bulk]").forEach(count));
  document.querySelectorAll("form[data-bulk]").forEach(count);
}

/** The boxes of the rows that are on this page; what was picked elsewhere has boxes out of sight. */
function shown(form) {
  return [...form.querySelectorAll("tbody [data-pick]")];
}

function count(form) {
  const boxes = [...form.querySelectorAll("[data-pick]")];
  const away = pickedOutOfSight(form);
  const picked = boxes.filter((box) => box.checked).length + away;
  const all = form.querySelector("[data-pick-all]");
  if (all) {
    const here = shown(form);
    all.checked = here.length > 0 && here.every((box) => box.checked);
    all.indeterminate = picked > 0 && !all.checked;
  }
  const everything = form.querySelector("[data-bulk-everything]");
  if (everything) {
    everything.hidden = boxes.length === 0 || picked < boxes.length + away;
    if (everything.hidden) everything.querySelector("input").checked = false;
  }
  const bar = form.querySelector("[data-bulk-bar]");
  if (!bar) return;
  bar.hidden = picked === 0;
  for (const part of bar.querySelectorAll("[data-most]")) {
    const isTooMany = picked > Number(part.dataset.most);
    if (part.matches("button")) part.disabled = isTooMany;
    else part.hidden = !isTooMany; // why it cannot be pressed
  }
  const words = form.querySelector("[data-bulk-count]");
  const noun = picked === 1 ? form.dataset.noun : form.dataset.nouns ?? `${form.dataset.noun}s`;
  const text = gettext("{count} {noun} selected", { count: picked, noun });
  if (words.textContent !== text) words.textContent = text;
}
