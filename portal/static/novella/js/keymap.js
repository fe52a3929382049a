/* Key bindings that the user changed, stored in this browser by their default key. */
import { announce } from "./copy.js";
import { gettext } from "./words.js";

const KEPT = "novella:keys";
let changed = read();

/** The key that is meant by one that is pressed; "" for one that was given away and has no other meaning. */
export function meant(key) {
  const found = Object.entries(changed).find(([, now]) => now === key);
  return found ? found[0] : key in changed ? "" : key;
}

export function startKeymap() {
  show();
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("[data-keymap]");
    if (!form) return;
    event.preventDefault();
    change(form.elements.meant.value, form.elements.key.value.trim());
    form.elements.key.value = "";
  });
  document.addEventListener("click", ({ target }) => {
    if (!target.closest("[data-keymap-reset]")) return;
    changed = {};
    keep(gettext("All keys reset."));
  });
}

/** A key that two things would hear is given to the later one; the other takes the one that became free. */
function change(wanted, key) {
  if (key.length !== 1) return;
  const was = changed[wanted] ?? wanted;
  const other = meant(key);
  if (other && other !== wanted) changed[other] = was;
  changed[wanted] = key;
  for (const [name, now] of Object.entries(changed)) if (name === now) delete changed[name];
  keep(gettext("Key changed to {key}.", { key }));
}

function keep(message) {
  try {
    localStorage.setItem(KEPT, JSON.stringify(changed));
  } catch {
    /* No room or not allowed: then it is so until the page is left. */
  }
  show();
  announce(message);
}

function show() {
  for (const place of document.querySelectorAll("kbd[data-key]")) place.textContent = changed[place.dataset.key] ?? place.dataset.key;
}

function read() {
  try {
    const found = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
    return found && typeof found === "object" ? found : {};
  } catch {
    return {};
  }
}
