/* Toasts: short, at most three, never the only copy. Bad news stays until it is closed. */
import { gettext } from "./words.js";
const SECONDS = 6;
const MOST = 3;

export function toast(text, { url, isBad = false } = {}) {
  const area = document.querySelector(`[data-toasts=${isBad ? "bad" : "good"}]`);
  if (!area) return;
  const box = document.createElement("div");
  box.className = "toast";
  box.dataset.tone = isBad ? "bad" : "good";
  const link = document.createElement("a");
  link.href = url;
  link.textContent = text;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "button plain square";
  close.setAttribute("aria-label", gettext("Close"));
  const cross = document.createElement("span");
  cross.ariaHidden = "true"; // the area is read out as it stands
  cross.textContent = "✕";
  close.append(cross);
  close.addEventListener("click", () => drop(box));
  box.append(link, close);
  area.append(box);
  if (!isBad) expire(box);
  count();
}

/** Time stands still while it is pointed at or holds the focus. */
function expire(box) {
  let timer;
  const start = () => (timer = setTimeout(() => drop(box), SECONDS * 1000));
  const stop = () => clearTimeout(timer);
  for (const kind of ["mouseenter", "focusin"]) box.addEventListener(kind, stop);
  for (const kind of ["mouseleave", "focusout"]) box.addEventListener(kind, start);
  start();
}

/** After closing by keyboard, focus the next message, or else the page. */
function drop(box) {
  const hadFocus = box.contains(document.activeElement);
  box.remove();
  count();
  if (hadFocus) (document.querySelector(".toast:not([hidden]) button") ?? document.getElementById("main")).focus();
}

/** Three are shown; the others are counted, and are in the bell. */
function count() {
  const all = [...document.querySelectorAll(".toast")].filter((one) => !one.matches(".toast-more"));
  all.forEach((one, at) => (one.hidden = at < all.length - MOST));
  document.querySelector(".toast-more")?.remove();
  if (all.length <= MOST) return;
  const more = document.createElement("a");
  more.className = "toast toast-more small";
  more.href = document.querySelector("[data-tray]").dataset.tray;
  more.textContent = gettext("+{count} more notifications", { count: all.length - MOST });
  document.querySelector(".toasts").prepend(more);
}
