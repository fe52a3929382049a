/* What is wider than its place scrolls; where it holds nothing to be focused, it takes the focus itself. */
const BOXES = ".table-box, .topology-box, .graph-scroll, .host-names";
const INSIDE = "a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']";
const sizes = typeof ResizeObserver === "undefined" ? undefined : new ResizeObserver((all) => all.forEach(({ target }) => mark(target)));

export function startScrollers() {
  watch();
  for (const tab of document.querySelectorAll(".tabs [aria-current]")) toMiddle(tab, tab.closest(".tabs"));
  document.addEventListener("novella:changed", watch);
}

/** The tab that is open is seen, also where not all of them are. */
function toMiddle(tab, strip) {
  const [inner, outer] = [tab.getBoundingClientRect(), strip.getBoundingClientRect()];
  strip.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
}

function watch() {
  for (const box of document.querySelectorAll(BOXES)) {
    mark(box);
    sizes?.observe(box);
  }
}

function mark(box) {
  const scrolls = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
  if (!scrolls || box.querySelector(INSIDE)) {
    if (box.dataset.scroller === undefined) return;
    for (const name of ["data-scroller", "tabindex", "role", "aria-label"]) box.removeAttribute(name);
    return;
  }
  box.dataset.scroller = "";
  box.tabIndex = 0;
  const name = box.querySelector("caption")?.textContent.trim();
  if (!name) return;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", name);
}
