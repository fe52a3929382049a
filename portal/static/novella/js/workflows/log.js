/* The log of a workflow: searching and wrapping what is there, and going with what comes. */
import { ngettext } from "../words.js";
const NEAR = 48;

export function startLog() {
  if (!document.querySelector("[data-log]")) return;
  document.addEventListener("input", ({ target }) => {
    if (target.matches("[data-log-search]")) search();
  });
  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-log-wrap]")) document.querySelector("[data-log]").classList.toggle("unwrapped", !target.checked);
  });
  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-log-latest]")) toEnd();
  });
  box().addEventListener("scroll", pill, { passive: true });
  let wasAtEnd = true;
  document.addEventListener("novella:changed", () => {
    search();
    if (wasAtEnd && document.getSelection().isCollapsed) toEnd();
    else pill();
  });
  document.addEventListener("scroll", () => (wasAtEnd = isAtEnd()), { capture: true, passive: true });
  if (location.hash) document.querySelector(location.hash)?.scrollIntoView({ block: "center" });
  else toEnd();
}

function box() {
  return document.querySelector("[data-log]");
}

function isAtEnd() {
  const log = box();
  return log.scrollHeight - log.scrollTop - log.clientHeight < NEAR;
}

function toEnd() {
  box().scrollTop = box().scrollHeight;
  pill();
}

function pill() {
  const button = document.querySelector("[data-log-latest]");
  if (button) button.hidden = isAtEnd();
}

/** Lines that match stay bright; the rest steps back, so that what stands around a match can still be read. */
function search() {
  const field = document.querySelector("[data-log-search]");
  const wanted = field?.value.trim().toLowerCase() ?? "";
  let count = 0;
  for (const line of document.querySelectorAll("[data-log-line]")) {
    const hit = !wanted || line.textContent.toLowerCase().includes(wanted);
    line.toggleAttribute("data-dim", !hit);
    count += Number(Boolean(wanted) && hit);
  }
  const said = document.querySelector("[data-log-matches]");
  const text = wanted ? ngettext("{count} line matches", "{count} lines match", count) : "";
  if (said && said.textContent !== text) said.textContent = text;
}
