/* Ages, running times and open bars move on by themselves, as long as the page is live. */
import { gettext, number } from "./words.js";
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

export function startClock() {
  setInterval(tick, 1000);
  setInterval(grow, 200);
}

/** Stale pages do not pretend: their times stand still. */
function isStale() {
  return document.documentElement.hasAttribute("data-stale");
}

function tick() {
  if (isStale() || document.hidden) return;
  for (const element of document.querySelectorAll("time[data-age]")) put(element, age(seconds(element.dateTime)));
  for (const element of document.querySelectorAll("[data-since]")) put(element, duration(seconds(element.dataset.since)));
  for (const element of document.querySelectorAll("[data-until]")) put(element, duration(Math.max(0, Math.round((Date.parse(element.dataset.until) - Date.now()) / 1000))));
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function seconds(moment) {
  return Math.max(0, (Date.now() - Date.parse(moment)) / 1000);
}

export function age(amount) {
  const found = UNITS.find(([size]) => amount >= size);
  return found ? `${Math.floor(amount / found[0])} ${found[1]}` : gettext("now");
}

export function duration(amount) {
  if (amount < 0.9995) return `${Math.round(amount * 1000)} ms`;
  if (amount < 9.95) return `${number(amount, 1)} s`;
  let rest = Math.round(amount);
  const parts = [];
  for (const [size, unit] of UNITS) {
    if (rest < size) continue;
    parts.push(`${Math.floor(rest / size)} ${unit}`);
    rest %= size;
  }
  return parts.slice(0, 2).join(" ");
}

/** The axis shrinks as time passes, so that "now" keeps its place: bars move left, open ones keep their right end. */
function grow() {
  if (isStale() || document.hidden) return;
  for (const timeline of document.querySelectorAll("[data-timeline][data-ticking]")) {
    const drawn = Number(timeline.dataset.span);
    const scale = Number(timeline.dataset.scale);
    const elapsed = Math.max(drawn, seconds(timeline.dataset.begin));
    const shrink = drawn / elapsed;
    for (const shape of timeline.querySelectorAll(".bar:not(.planned)")) {
      const start = (shape.__start ??= parseFloat(shape.getAttribute("x")) / 100);
      shape.setAttribute("x", percent(start * shrink));
      if (shape.hasAttribute("data-open")) shape.setAttribute("width", percent(scale - start * shrink));
      else if (shape.getAttribute("width").endsWith("%")) {
        const length = (shape.__length ??= parseFloat(shape.getAttribute("width")) / 100);
        shape.setAttribute("width", percent(length * shrink));
      }
    }
    for (const mark of timeline.querySelectorAll(".grid, .thread, text")) {
      const ends = mark.matches("text") ? ["x"] : ["x1", "x2"];
      mark.__at ??= ends.map((end) => parseFloat(mark.getAttribute(end)) / 100);
      ends.forEach((end, which) => mark.setAttribute(end, percent(mark.__at[which] * shrink)));
    }
  }
}

function percent(share) {
  return `${(share * 100).toFixed(3)}%`;
}
