/* The fleet from far away: thousands of hosts in one picture, without a link each. Their order says where each stands. */
const FAR = "svg[data-hosts]";
const GAP = 2; // px between squares
const BACK = "~"; // before the name of a host that stands back

export function farPictures(form) {
  return [...form.querySelectorAll(FAR)];
}

/** The hosts that a rectangle of the screen touches; those that stand back are left out. */
export function hostsInside(picture, box) {
  const { left, top, width } = picture.getBoundingClientRect();
  const scale = width / picture.viewBox.baseVal.width;
  const [from, to] = [[box.left - left, box.top - top], [box.right - left, box.bottom - top]].map((point) => point.map((px) => px / scale));
  return squares(picture).filter(({ x, y, size, isBack }) => !isBack && x < to[0] && x + size > from[0] && y < to[1] && y + size > from[1]).map(({ name }) => name);
}

/** The host that is drawn at a point of the screen, if there is one: [] or [name]. */
export function hostAt({ target, clientX: x, clientY: y }) {
  const picture = target.closest(FAR);
  return picture ? hostsInside(picture, { left: x, right: x, top: y, bottom: y }) : [];
}

/** An outline around each that is chosen. */
export function outline(picture, chosen) {
  const path = picture.querySelector("[data-outline]");
  const shape = squares(picture).filter(({ name }) => chosen.has(name)).map(({ x, y, size }) => `M${x} ${y}h${size}v${size}h${-size}z`).join("");
  if (path.getAttribute("d") !== shape) path.setAttribute("d", shape);
  picture.toggleAttribute("data-any-chosen", shape !== "");
}

/** The pointer tells the name of what it is over. */
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

function squares(picture) {
  return picture.dataset.hosts.split(" ").map((text, number) => ({
    name: text.replace(BACK, ""),
    isBack: text.startsWith(BACK),
    ...squareOf(picture, number),
  }));
}
