/* Turns one tree into another in place, so that focus, picked boxes, open details and scroll positions stay. */

/** Make `from` like `to`; elements with an id keep their identity wherever they move among siblings. */
export function morph(from, to) {
  if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName || (from.id && to.id && from.id !== to.id)) {
    from.replaceWith(to);
    return;
  }
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  morphAttributes(from, to);
  morphChildren(from, to);
}

/** What the person has done to an element is theirs: open, picked, typed. */
function isTheirs(element, name) {
  return (name === "open" && element.matches("details, dialog")) || name === "data-picked" || name === "tabindex" || name === "aria-rowindex" ||
    (name === "hidden" && element.matches("[data-needs-script], [data-bulk-bar], [data-to-latest]"));
}

function morphAttributes(from, to) {
  for (const { name, value } of [...to.attributes]) {
    if (!isTheirs(from, name) && from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !isTheirs(from, name)) from.removeAttribute(name);
  }
  for (const kept of ["__start", "__length", "__at"]) delete from[kept];
}

function morphChildren(from, to) {
  const byId = new Map([...from.children].filter((child) => child.id).map((child) => [child.id, child]));
  let here = to.nodeType === Node.ELEMENT_NODE && to.hasAttribute("data-tail") ? afterWhatStays(from, to, byId) : from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const known = wanted.id ? byId.get(wanted.id) : undefined;
    if (known && known !== here) from.insertBefore(known, here);
    else if (!known && (!here || (here.id && byId.has(here.id) && isWanted(to, here.id)) || here.nodeName !== wanted.nodeName)) {
      from.insertBefore(wanted, here);
      continue;
    }
    const target = known ?? here;
    here = target.nextSibling;
    morph(target, wanted);
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}

/** Of a list that grows at its end only that is sent: what it has before that stays, unless something between is missing. */
function afterWhatStays(from, to, byId) {
  const first = byId.get(to.querySelector("[data-row]")?.id);
  if (!first) return from.firstChild;
  while (!to.firstElementChild.hasAttribute("data-row")) to.firstElementChild.remove();
  return first;
}

function isWanted(to, id) {
  return [...to.children].some((child) => child.id === id);
}

/** The elements of a piece of HTML; a table row needs its table around it to be parsed. */
export function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return [...template.content.children];
}
