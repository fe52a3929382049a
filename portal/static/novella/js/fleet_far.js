/* The zoomed-out fleet: thousands of hosts in one drawing, without a link each. Their order says where each stands. */
const FAR = "svg[data-hosts]";
const GAP = 2; // px between squares
const BACK = "~"; // before the name of a host that stands back

export function farDrawings(form) {
  return [...form.querySelectorAll(FAR)];
}

/** The hosts that a rectangle of the screen touches; those that stand back are left out. */
export function hostsInside(drawing, box) {
  const { left, top, width } = drawing.getBoundingClientRect();
  const scale = width / drawing.viewBox.baseVal.width;
  const [from, to] = [[box.left - left, box.top - top], [box.right - left, box.bottom - top]].map((point) => point.map((px) => px / scale));
  return squares(drawing).filter(({ x, y, size, isBack }) => !isBack && x < to[0] && x + size > from[0] && y < to[1] && y + size > from[1]).map(({ name }) => name);
}

/** The host that is drawn at a point of the screen, if there is one: [] or [name]. */
export function hostAt({ target, clientX: x, clientY: y }) {
  const drawing = target.closest(FAR);
  return drawing ? hostsInside(drawing, { left: x, right: x, top: y, bottom: y }) : [];
}

/** An outline around each that is chosen. */
export function outline(drawing, chosen) {
  const path = drawing.querySelector("[data-outline]");
  const shape = squares(drawing).filter(({ name }) => chosen.has(name)).map(({ x, y, size }) => `M${x} ${y}h${size}v${size}h${-size}z`).join("");
  if (path.getAttribute("d") !== shape) path.setAttribute("d", shape);
  drawing.toggleAttribute("data-any-chosen", shape !== "");
}

/** Show the name of the host under the pointer. */
export function nameUnder(event) {
  const title = event.target.closest(FAR)?.querySelector("title");
  if (title) title.textContent = hostAt(event)[0] ?? "";
}

/** Where the host of this number is drawn. */
export function squareOf({ dataset }, number) {
  const [columns, pitch] = [Number(dataset.columns), Number(dataset.pitch)];
  return { x: (number % columns) * pitch + 1, y: Math.floor(number / columns) * pitch + 1, size: pitch - GAP };
}

export function hostOf({ dataset }, number) {
  return dataset.hosts.split(" ")[number].replace(BACK, "");
}

function squares(drawing) {
  return drawing.dataset.hosts.split(" ").map((text, number) => ({
    name: text.replace(BACK, ""),
    isBack: text.startsWith(BACK),
    ...squareOf(drawing, number),
  }));
}
