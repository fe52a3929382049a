/* Keyboard shortcuts: listed by ?, off inside fields. */
import { copyLink } from "./copy.js";
import { meant } from "./keymap.js";

const LONGEST_PAUSE = 1200;
let before = "";
let beforeAt = 0;

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    const pair = performance.now() - beforeAt < LONGEST_PAUSE ? `${before} ${event.key}` : event.key;
    const place = document.querySelector(`[data-keys="${CSS.escape(pair).replace("\\ ", " ")}"]`);
    before = event.key;
    beforeAt = performance.now();
    if (place) {
      event.preventDefault();
      location.assign(place.href);
      return;
    }
    const key = meant(event.key);
    const act = ACTIONS[key] ?? (/^[1-9]$/.test(key) ? () => turnTo(Number(key) - 1) : undefined);
    if (act && act(event) !== false) event.preventDefault();
  });
  // Before other handlers: Escape closes what is open first, and only then goes up.
  document.addEventListener("keydown", (event) => event.key === "Escape" && up(event), { capture: true });
}

const ACTIONS = {
  "/": () => focus("[data-key-search]"),
  "?": () => document.getElementById("keys-dialog")?.showModal(),
  j: () => move(1),
  k: () => move(-1),
  x: () => pick(),
  c: () => follow("[data-key-create]") !== false || copyLink(),
  "[": () => along(-1),
  "]": () => along(1),
  Enter: (event) => (event.target.closest("a, button, summary, [data-row]") === picked() && picked() ? open() : false),
};

export function isTyping(element) {
  if (element.isContentEditable || element.matches("textarea, select")) return true;
  return element.matches("input") && !["checkbox", "radio", "button", "submit"].includes(element.type);
}

// Elements that the key closes, and forms that may have input.
const STAYS = "dialog[open], details[data-menu][open], [popover]:popover-open, #drawer:not([hidden]), #step-drawer:not([hidden]), form[data-draft]";

/** To the page above this one; a console has the key for itself. */
function up(event) {
  if (isTyping(event.target) || event.target.matches("canvas") || document.fullscreenElement || document.querySelector(STAYS)) return;
  const above = [...document.querySelectorAll(".crumb a")].at(-1);
  if (above) location.assign(above.href);
}

function focus(selector) {
  const field = document.querySelector(selector);
  field?.focus();
  field?.select();
}

function rows() {
  return [...document.querySelectorAll("[data-rows] > [data-row]")];
}

function picked() {
  return document.querySelector("[data-row][data-picked]");
}

/** The row itself takes the focus, so that screen readers speak it and the browser scrolls to it. */
function move(by) {
  const all = rows();
  if (!all.length) return;
  const now = all.indexOf(picked());
  const next = now < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(now + by, 0), all.length - 1);
  picked()?.removeAttribute("data-picked");
  all[next].setAttribute("data-picked", "");
  all[next].tabIndex = -1;
  all[next].focus({ preventScroll: true });
  all[next].scrollIntoView({ block: "nearest" });
}

function pick() {
  const box = picked()?.querySelector("[data-pick]");
  if (!box) return false;
  box.click();
}

function open() {
  picked()?.querySelector("[data-open]")?.click();
}

function follow(selector) {
  const link = document.querySelector(selector);
  if (!link) return false;
  location.assign(link.href);
}

/** Through the attempts of the step that is open, where it has several; through the tabs else. */
function along(by) {
  const tries = [...document.querySelectorAll("[data-tries] a")];
  if (!tries.length) return turn(by);
  tries[tries.findIndex((one) => one.hasAttribute("aria-current")) + by]?.click();
}

function turn(by) {
  const now = [...document.querySelectorAll(".tab")].findIndex((tab) => tab.hasAttribute("aria-current"));
  return now < 0 ? false : turnTo(now + by);
}

/** The tab of this number, counted from 0. */
function turnTo(number) {
  const tab = document.querySelectorAll(".tab")[number];
  if (!tab) return false;
  location.assign(tab.href);
}
