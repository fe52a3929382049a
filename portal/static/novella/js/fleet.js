/* Picking hosts on the map: by a rectangle that is drawn, by keys, or one by one. The table has the same choice. */
import { farDrawings, hostAt, hostsInside, nameUnder, outline } from "./fleet_far.js";
import { nextTo, startWalk } from "./fleet_walk.js";
import { gettext } from "./words.js";

const LEAST = 6; // px: what moves less is a click
const SQUARE = "[data-host]";
const MAP = ".card-body:has(.fleet-blocks)";
const KEPT = "novella-fleet"; // what is chosen, for the next page of the same map
const chosen = new Set();
let brush;
let isDrawn = false; // a rectangle has just been drawn: the click that ends it is none

export function startFleet() {
  const form = document.querySelector("form[data-fleet]");
  if (!form) return;
  form.addEventListener("pointerdown", begin);
  form.addEventListener("dragstart", (event) => event.target.closest?.(MAP) && event.preventDefault());
  form.addEventListener("click", clicked, { capture: true });
  form.addEventListener("keydown", key);
  form.addEventListener("pointermove", nameUnder, { passive: true });
  form.addEventListener("change", ({ target }) => {
    if (!target.matches("[data-pick], [data-pick-all]")) return;
    if (target.matches("[data-pick-all]")) for (const box of form.querySelectorAll("tbody [data-pick]")) box.checked = target.checked;
    for (const box of form.querySelectorAll("[data-pick]")) box.checked ? chosen.add(box.value) : chosen.delete(box.value);
    show(form);
  });
  document.addEventListener("click", ({ target }) => {
    const mode = target.closest("[data-fleet-choose]");
    if (mode) mode.setAttribute("aria-pressed", form.toggleAttribute("data-choosing"));
    if (target.closest("[data-fleet-none]")) choose(form, [...chosen], false);
  });
    for (const box of form.querySelectorAll("[data-pick]:checked")) chosen.add(box.value); // after "back"
  startWalk(form);
  document.addEventListener("novella:changed", () => choose(form, [], true)); // rows and squares may be new ones
  choose(form, kept(), true);
  addEventListener("pagehide", () => sessionStorage.setItem(KEPT, JSON.stringify([...chosen])));
}

/** What was chosen on the page of the map that led here, or before this one was read again; elsewhere one begins anew. */
function kept() {
  const way = performance.getEntriesByType("navigation")[0]?.type;
  const isSameMap = way !== "navigate" || document.referrer.split("?")[0] === location.origin + location.pathname;
  return isSameMap ? JSON.parse(sessionStorage.getItem(KEPT) ?? "[]") : [];
}

function choose(form, names, isOn) {
  for (const name of names) isOn ? chosen.add(name) : chosen.delete(name);
  show(form);
  form.dispatchEvent(new Event("change", { bubbles: true })); // the bar counts anew
}

/** Squares and boxes as they are chosen; hosts that the table does not show have a box out of sight. */
function show(form) {
  const away = form.querySelector("[data-elsewhere]");
  away.replaceChildren();
  const boxes = new Map([...form.querySelectorAll("[data-pick]")].map((box) => [box.value, box]));
  for (const [name, box] of boxes) box.checked = chosen.has(name);
  for (const name of chosen) {
    if (boxes.has(name)) continue;
    const box = Object.assign(document.createElement("input"), { type: "checkbox", name: "host", value: name, checked: true });
    box.dataset.pick = "";
    away.append(box);
  }
  for (const square of form.querySelectorAll(SQUARE)) {
    const isOn = chosen.has(square.dataset.host);
    if (square.hasAttribute("data-chosen") === isOn) continue;
    square.toggleAttribute("data-chosen", isOn);
    square.dataset.words ??= square.getAttribute("aria-label") ?? square.getAttribute("title");
    square.setAttribute("aria-label", isOn ? gettext("{words}, selected", { words: square.dataset.words }) : square.dataset.words);
  }
  for (const drawing of farDrawings(form)) outline(drawing, chosen);
}

function clicked(event) {
  const form = event.currentTarget;
  const square = event.target.closest(SQUARE);
  const names = square ? [square.dataset.host] : hostAt(event);
  const isChoosing = names.length && form.hasAttribute("data-choosing") && !event.ctrlKey && !event.metaKey;
  if (isDrawn || isChoosing) {
    event.preventDefault();
    event.stopPropagation();
  }
  if (isChoosing && !isDrawn) turn(form, names);
}

/** All of them are picked; where all were already, none is. */
function turn(form, names) {
  if (names.length) choose(form, names, !names.every((name) => chosen.has(name)));
}

/** A rectangle: with a mouse whenever it is drawn, with a finger or a pen where one chooses. */
function begin(event) {
  const form = event.currentTarget;
  if (event.button !== 0 || !event.target.closest(MAP)) return;
  if (event.pointerType !== "mouse" && !form.hasAttribute("data-choosing")) return;
  const from = { x: event.clientX, y: event.clientY };
  const stop = new AbortController();
  const options = { signal: stop.signal };
  const end = (isWhole) => {
    stop.abort();
    if (brush && isWhole) pickInside(form, brush.getBoundingClientRect());
    isDrawn = Boolean(brush);
    brush?.remove();
    brush = undefined;
    setTimeout(() => (isDrawn = false));
  };
  addEventListener("pointermove", (move) => draw(from, move), options);
  addEventListener("pointerup", () => end(true), options);
  addEventListener("pointercancel", () => end(false), options);
  addEventListener("keydown", (pressed) => pressed.key === "Escape" && end(false), options);
}

function draw(from, { clientX, clientY }) {
  const [width, height] = [Math.abs(clientX - from.x), Math.abs(clientY - from.y)];
  if (!brush && Math.max(width, height) < LEAST) return;
  if (!brush) {
    brush = Object.assign(document.createElement("div"), { className: "fleet-brush" });
    document.body.append(brush);
    document.getSelection().removeAllRanges();
  }
  Object.assign(brush.style, { left: `${Math.min(from.x, clientX)}px`, top: `${Math.min(from.y, clientY)}px`, width: `${width}px`, height: `${height}px` });
}

/** What stands back is left out. */
function pickInside(form, box) {
  const near = squares(form)
    .filter(({ square, place }) => !isDim(square) && place.left < box.right && place.right > box.left && place.top < box.bottom && place.bottom > box.top)
    .map(({ square }) => square.dataset.host);
  turn(form, [...near, ...farDrawings(form).flatMap((drawing) => hostsInside(drawing, box))]);
}

function isDim(square) {
  return square.classList.contains("dim") || Boolean(square.querySelector(".dim"));
}

function squares(form) {
  return [...form.querySelectorAll(SQUARE)].map((square) => ({ square, place: square.getBoundingClientRect() }));
}

/** Space picks the square that has the focus, arrows lead to the next one, and with Shift they pick on the way. */
function key(event) {
  const square = event.target.closest(SQUARE);
  if (!square || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === " ") {
    event.preventDefault();
    turn(event.currentTarget, [square.dataset.host]);
  } else if (event.key.startsWith("Arrow")) {
    event.preventDefault();
    const all = squares(event.currentTarget).map((one) => one.square);
    const next = nextTo(event.currentTarget, square, event.key, all);
    if (event.shiftKey) choose(event.currentTarget, [square, next ?? square].map((one) => one.dataset.host), true);
    next?.focus();
  }
}
