/* "Show reason" beside whatever waits: a popover with the reason, read when it is asked for. */
import { fetchWhole } from "../answers.js";
import { parse } from "../live/morph.js";
import { gettext } from "../words.js";

export function startWhy() {
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-why]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    const answer = await fetchWhole(link.href);
    if (!answer?.ok || answer.away) location.assign(link.href);
    else show(link, answer.text);
  });
}

function show(link, html) {
  document.getElementById("why-popover")?.remove();
  const popover = document.createElement("div");
  popover.id = "why-popover";
  popover.className = "why-popover";
  popover.popover = "auto";
  popover.setAttribute("role", "dialog");
  popover.setAttribute("aria-label", gettext("Wait reason"));
  popover.tabIndex = -1;
  popover.append(...parse(html));
  popover.addEventListener("toggle", ({ newState }) => {
    if (newState !== "closed") return;
    const hadFocus = document.activeElement === document.body || popover.contains(document.activeElement);
    popover.remove();
    if (hadFocus) link.focus({ preventScroll: true }); // else the user has moved the focus
  });
  popover.addEventListener("focusout", ({ relatedTarget }) => relatedTarget && !popover.contains(relatedTarget) && popover.hidePopover());
  document.body.append(popover);
  popover.showPopover();
  place(popover, link.getBoundingClientRect());
  popover.focus({ preventScroll: true });
}

/** Under the link, and never over the edge. */
function place(popover, at) {
  const size = popover.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, innerWidth - size.width - 8));
  const under = at.bottom + 6 + size.height <= innerHeight;
  popover.style.left = `${left}px`;
  popover.style.top = `${under ? at.bottom + 6 : Math.max(8, at.top - size.height - 6)}px`;
}
