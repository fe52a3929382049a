/* The log of a workflow: searching and wrapping what is there, and going with what comes. */
import { copyLink } from "../copy.js";
import { ngettext } from "../words.js";
const NEAR = 48;
const LINE = /^#line-(\d{1,9})$/;

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
    if (target.closest("[data-copy-line]")) copyLink();
  });
  box().addEventListener("scroll", pill, { passive: true });
  let wasAtEnd = true;
  document.addEventListener("novella:changed", () => {
    search();
    offerLink();
    if (wasAtEnd && document.getSelection().isCollapsed) toEnd();
    else pill();
  });
  document.addEventListener("scroll", () => (wasAtEnd = isAtEnd()), { capture: true, passive: true });
  addEventListener("hashchange", offerLink);
  offerLink();
  if (LINE.test(location.hash)) toLine();
  else toEnd();
}

/** The line that the address names; where newer ones have pushed it off the page, the page around it. */
function toLine() {
  const line = lineHere();
  const address = new URL(location.href);
  if (line) line.scrollIntoView({ block: "center" });
  else if (!address.searchParams.has("line")) {
    address.searchParams.set("line", LINE.exec(location.hash)[1]);
    location.replace(address);
  }
}

function lineHere() {
  return LINE.test(location.hash) ? document.getElementById(location.hash.slice(1)) : null;
}

/** A line that is marked can be passed on. */
function offerLink() {
  const button = document.querySelector("[data-copy-line]");
  if (button) button.hidden = !lineHere();
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
  const status = document.querySelector("[data-log-matches]");
  const text = wanted ? ngettext("{count} line matches", "{count} lines match", count) : "";
  if (status && status.textContent !== text) status.textContent = text;
}
