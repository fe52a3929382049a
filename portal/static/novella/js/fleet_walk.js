/* The map by keyboard: arrows lead from group to group, and from host to host where hosts are drawn without a link each. */
import { farDrawings, hostOf, squareOf } from "./fleet_far.js";
import { isTyping } from "./keys.js";
import { meant } from "./keymap.js";
import { gettext } from "./words.js";

const GROUP = "a[data-group]";
const CURSOR = "a[data-cursor]";
const KEPT = "novella-fleet-walk"; // where keyboard focus was, for the next page
const SVG = "http://www.w3.org/2000/svg";
const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
let held; // the group and the number of the host that had the focus when the drawing was drawn anew

export function startWalk(form) {
  form.addEventListener("keydown", alongGroups);
  form.addEventListener("focusin", ({ target }) => (held = target.closest(CURSOR) ? [groupOf(target), Number(target.dataset.cursor)] : undefined));
  document.addEventListener("keydown", outwards);
  document.addEventListener("novella:changed", () => putCursors(form));
  addEventListener("pagehide", () => {
    const focused = document.activeElement;
    if (form.contains(focused) && focused.matches(":focus-visible")) sessionStorage.setItem(KEPT, location.href);
  });
  putCursors(form);
  goOn(form);
}

/** What an arrow leads to from a square: in a drawing from far the next host, else the nearest square that way. */
export function nextTo(form, square, key, all) {
  const way = WAYS[key];
  if (!way) return undefined;
  return square.matches(CURSOR) ? step(square, way) : beside(all, square, way);
}

function alongGroups(event) {
  const group = event.target.closest(GROUP);
  if (!group || event.ctrlKey || event.metaKey || event.altKey) return;
  const all = [...event.currentTarget.querySelectorAll(GROUP)];
  const ends = { Home: all[0], End: all.at(-1) };
  const next = WAYS[event.key] ? (beside(all, group, WAYS[event.key]) ?? group) : ends[event.key];
  if (next) next.focus();
  else if (meant(event.key) === "+") group.click();
  else return;
  event.preventDefault();
}

/** One step out, as Escape does. */
function outwards(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || meant(event.key) !== "-" || isTyping(event.target)) return;
  if (!document.querySelector("dialog[open]")) [...document.querySelectorAll(".crumb a")].at(-1)?.click();
}

/** After zooming by keyboard, focus the group that was left, or else the first element. */
function goOn(form) {
  const from = sessionStorage.getItem(KEPT);
  sessionStorage.removeItem(KEPT);
  if (!from || document.referrer !== from) return;
  const groups = [...form.querySelectorAll(GROUP)];
  const outside = [...document.querySelectorAll(".crumb a")].at(-1); // where nothing is drawn but totals
  (groups.find(({ href }) => href === from) ?? groups[0] ?? form.querySelector("[data-host]") ?? outside)?.focus();
}

/** The nearest that way: one that is off to the side counts as further away. */
function beside(all, from, [x, y]) {
  const middle = (one) => {
    const { left, right, top, bottom } = one.getBoundingClientRect();
    return [(left + right) / 2, (top + bottom) / 2];
  };
  const [fromX, fromY] = middle(from);
  let best;
  let least = Infinity;
  for (const other of all) {
    const [dx, dy] = middle(other).map((at, axis) => at - [fromX, fromY][axis]);
    const ahead = dx * x + dy * y;
    const far = ahead + 3 * Math.abs(dx * y + dy * x);
    if (other !== from && ahead > 1 && far < least) [best, least] = [other, far];
  }
  return best;
}

/** Each zoomed-out drawing has one link, to the host with the focus. */
function putCursors(form) {
  for (const drawing of farDrawings(form)) {
    if (drawing.querySelector(CURSOR)) continue;
    drawing.setAttribute("role", "group"); // what is inside an image is not reached
    const isHeld = held?.[0] === groupOf(drawing);
    const cursor = put(drawing, isHeld ? held[1] : 0);
    if (isHeld && document.activeElement === document.body) cursor?.focus();
  }
}

function groupOf(element) {
  return element.closest("svg").dataset.name;
}

/** Create a new link each time, so that screen readers announce its name. */
function put(drawing, number) {
  const count = drawing.dataset.hosts.split(" ").length;
  const at = Math.min(number, count - 1);
  const { x, y, size } = squareOf(drawing, at);
  const name = hostOf(drawing, at);
  const link = document.createElementNS(SVG, "a");
  link.setAttribute("href", drawing.dataset.page.replace("-", encodeURIComponent(name)));
  link.setAttribute("aria-label", gettext("{name}: {number} of {count}, {group}", { name, number: at + 1, count, group: groupOf(drawing) }));
  Object.assign(link.dataset, { host: name, cursor: at });
  const shape = document.createElementNS(SVG, "path");
  shape.setAttribute("class", "sq fleet-cursor");
  shape.setAttribute("d", `M${x} ${y}h${size}v${size}h${-size}z`);
  link.append(shape);
  drawing.append(link);
  return link;
}

function step(cursor, [x, y]) {
  const drawing = cursor.closest("svg");
  const columns = Number(drawing.dataset.columns);
  const [now, count] = [Number(cursor.dataset.cursor), drawing.dataset.hosts.split(" ").length];
  const next = now + x + y * columns;
  const isOff = next < 0 || next >= count || (x && Math.floor(next / columns) !== Math.floor(now / columns));
  if (isOff) return undefined;
  const made = put(drawing, next);
  made.focus();
  cursor.remove();
  return made;
}
