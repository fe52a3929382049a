/* The palette: Ctrl-K, a field, and what it finds. The keyboard stays in the field; the arrows move what is chosen. */
import { leadsToSignIn, signInAgain } from "./reauthentication.js";
import { fetchWhole } from "./answers.js";
import { gettext } from "./words.js";

const PAUSE = 150;
let asked = 0;
let timer;

export function startPalette() {
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const field = dialog.querySelector("input");
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || event.key.toLowerCase() !== "k") return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else if (!document.querySelector("dialog[open]")) show(dialog, field);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-open-palette]")) show(dialog, field);
  });
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => find(dialog, field.value), PAUSE);
  });
  field.addEventListener("keydown", (event) => KEYS[event.key]?.(event, dialog));
}

const KEYS = {
  ArrowDown: (event, dialog) => move(event, dialog, 1),
  ArrowUp: (event, dialog) => move(event, dialog, -1),
  Enter(event, dialog) {
    event.preventDefault();
    chosen(dialog)?.click();
  },
};

function show(dialog, field) {
  field.value = "";
  dialog.showModal();
  find(dialog, "");
}

/** Only the answer to what was typed last is shown, whichever comes first. */
async function find(dialog, text) {
  const mine = ++asked;
  const address = `${dialog.dataset.palette}?${new URLSearchParams({ q: text })}`;
  const answer = await fetchWhole(address);
  if (mine !== asked) return;
  if (leadsToSignIn(answer?.away)) {
    dialog.close();
    signInAgain();
    return;
  }
  const list = dialog.querySelector("[role=listbox]");
  if (!answer?.ok) {
    list.replaceChildren();
    say(dialog, gettext("Search isn't available now. Your input is kept: try again in a moment."));
    return;
  }
  list.innerHTML = answer.text;
  list.scrollTop = 0;
  choose(dialog, options(dialog)[0]);
  const count = options(dialog).length;
  say(dialog, text ? gettext("{count} results. Arrow keys select, Enter opens", { count }) : gettext("Arrow keys select, Enter opens, Esc closes"));
}

function say(dialog, words) {
  dialog.querySelector("[data-palette-words]").textContent = words;
}

function options(dialog) {
  return [...dialog.querySelectorAll("a[role=option]")];
}

function chosen(dialog) {
  return dialog.querySelector("a[aria-selected=true]");
}

function move(event, dialog, by) {
  event.preventDefault();
  const all = options(dialog);
  choose(dialog, all[(all.indexOf(chosen(dialog)) + by + all.length) % all.length]);
}

function choose(dialog, option) {
  chosen(dialog)?.setAttribute("aria-selected", "false");
  const field = dialog.querySelector("input");
  if (!option) {
    field.removeAttribute("aria-activedescendant");
    return;
  }
  option.setAttribute("aria-selected", "true");
  option.scrollIntoView({ block: "nearest" });
  field.setAttribute("aria-activedescendant", option.id);
}
