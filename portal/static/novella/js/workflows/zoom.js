/* Zooming and following: the timeline from one share of its axis to another, the graph as large as one likes.

   Both stand in the address, so that a link shows what its sender saw. */
import { announce } from "../copy.js";
import { gettext, number } from "../words.js";

const STEP = 1.5;
const MOST = 60;
const LEAST_GRAPH = 0.3;
const NOW_AT = 0.8; // of the width: where the present stands while it is followed
let zoom = 1;
let from = 0;
let follows = false;

export function startZoom() {
  if (!pane()) return;
  const here = new URL(location.href).searchParams;
  zoom = Number(here.get("zoom")) || 1;
  from = Number(here.get("from")) || 0;
  follows = here.has("follow");
  show();
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-zoom], [data-follow]");
    if (button) button.dataset.zoom ? zoomBy(button.dataset.zoom) : follow();
  });
  document.addEventListener("novella:changed", show);
  addEventListener("resize", show);
}

/** "+", "-", or "0" for the whole again; what stands in the middle stays there. */
export function zoomBy(key) {
  if (!pane()) return false;
  const middle = from + 0.5 / zoom;
  zoom = key === "0" ? 1 : zoom * (key === "-" ? 1 / STEP : STEP);
  from = key === "0" ? 0 : middle - 0.5 / zoom;
  keep();
  announce(gettext("Zoom: {amount} %", { amount: number(zoom * 100) }));
  return true;
}

/** A quarter of what is seen to the left or right. */
export function pan(by) {
  if (!timeline() || zoom <= 1) return false;
  from += (by * 0.25) / zoom;
  follows = false;
  keep();
  return true;
}

/** Stay with what is under way, or stop that. */
export function follow() {
  if (!timeline()?.hasAttribute("data-ticking")) return false;
  follows = !follows;
  keep();
  announce(follows ? gettext("Following the current step") : gettext("No longer following"));
  return true;
}

function timeline() {
  return document.querySelector(".flow-main [data-timeline]");
}

function pane() {
  return timeline() ?? document.querySelector(".graph-scroll");
}

function keep() {
  show();
  const here = new URL(location.href);
  const parameters = { zoom: zoom === 1 ? "" : zoom.toFixed(2), from: from ? from.toFixed(4) : "", follow: follows ? "1" : "" };
  for (const [name, text] of Object.entries(parameters)) text ? here.searchParams.set(name, text) : here.searchParams.delete(name);
  history.replaceState(history.state, "", here);
}

function show() {
  const line = timeline();
  zoom = Math.min(Math.max(zoom, line ? 1 : LEAST_GRAPH), MOST);
  if (follows && line) from = Number(line.dataset.scale) - NOW_AT / zoom;
  from = line ? Math.min(Math.max(from, 0), 1 - 1 / zoom) : 0;
  // On the root: a page that is drawn anew leaves it alone.
  document.documentElement.style.setProperty("--zoom", zoom);
  document.documentElement.style.setProperty("--zoom-from", from);
  if (line) leaveOutWhatIsCut(line.querySelector(".timeline-axis .track"));
  for (const button of document.querySelectorAll("[data-follow]")) {
    button.setAttribute("aria-pressed", String(follows));
    button.disabled = !line?.hasAttribute("data-ticking");
  }
  if (follows) [...document.querySelectorAll('.timeline-row .state[data-tone="working"]')].at(-1)?.scrollIntoView({ block: "nearest" });
}

/** Half a number at the edge of the axis is another number. */
function leaveOutWhatIsCut(axis) {
  const { left, right } = axis.getBoundingClientRect();
  for (const words of axis.querySelectorAll("text")) {
    const place = words.getBoundingClientRect();
    words.toggleAttribute("data-cut", place.left < left || place.right > right);
  }
}
