/* Copy buttons: a text, or the text of the element that "#id" names. */
import { gettext } from "./words.js";
export function startCopying() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-copy-link]");
    if (!button) return;
    const wanted = button.dataset.copy ?? location.href;
    const text = wanted.startsWith("#") ? document.querySelector(wanted)?.textContent ?? "" : wanted;
    if (!(await put(text))) return;
    button.setAttribute("data-copied", "");
    announce(gettext("Copied"));
    setTimeout(() => button.removeAttribute("data-copied"), 1500);
  });
}

/** What is shown once is saved by the browser itself: it travels no second time. */
export function startSaving() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-save]");
    if (!button) return;
    const text = document.querySelector(button.dataset.save)?.textContent ?? "";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = button.dataset.saveAs || "secret";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

/** This page as it is looked at: every view is an address. */
export async function copyLink() {
  if (await put(location.href)) announce(gettext("Link to this view copied"));
}

async function put(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return putTheOldWay(text);
  }
}

/** Without TLS there is no clipboard interface. */
function putTheOldWay(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

const PAUSE = 5000;
let lastSaidAt = -Infinity;
let newest;
let timer;

/** Announce the result of an action to screen readers. */
export function announce(text) {
  const region = document.querySelector("[data-announce]");
  if (!region) return;
  lastSaidAt = performance.now();
  region.textContent = text;
}

/** Announce the newest live change, at most once in five seconds and not if the user has turned this off. */
export function announceState(text) {
  if (document.documentElement.hasAttribute("data-muted")) return;
  newest = text;
  timer ??= setTimeout(() => {
    timer = undefined;
    announce(newest);
  }, Math.max(0, lastSaidAt + PAUSE - performance.now()));
}
