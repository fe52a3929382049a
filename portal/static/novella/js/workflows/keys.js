/* Keys of a workflow's page, beside those that every page has. */
import { meant } from "../keymap.js";
import { isTyping } from "../keys.js";
import { follow, pan, zoomBy } from "./zoom.js";

export function startWorkflowKeys() {
  if (!document.getElementById("workflow-body")) return;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    if (ACTIONS[meant(event.key)]?.()) event.preventDefault();
  });
}

const ACTIONS = {
  o: () => click("[data-row][data-picked] [data-step]"),
  n: () => toFailure(1),
  N: () => toFailure(-1),
  w: () => click("[data-why]"),
  f: () => follow() || click("[data-log-latest]"),
  "+": () => zoomBy("+"),
  "=": () => zoomBy("+"), // where + needs Shift
  "-": () => zoomBy("-"),
  0: () => zoomBy("0"),
  ArrowLeft: () => pan(-1),
  ArrowRight: () => pan(1),
  l: () => click('.tab[data-tab="logs"]'),
  ".": () => focus("#workflow-actions a, #workflow-actions summary"),
};

function click(selector) {
  const found = document.querySelector(selector);
  found?.click();
  return Boolean(found);
}

function focus(selector) {
  const found = document.querySelector(selector);
  found?.focus();
  return Boolean(found);
}

/** The next thing that failed, round and round. */
function toFailure(by) {
  const failed = [...document.querySelectorAll("[data-row]")].filter((row) => row.querySelector('.state[data-tone="bad"]'));
  if (!failed.length) return false;
  const now = failed.findIndex((row) => row.hasAttribute("data-picked"));
  const next = failed[now < 0 ? (by > 0 ? 0 : failed.length - 1) : (now + by + failed.length) % failed.length];
  document.querySelector("[data-row][data-picked]")?.removeAttribute("data-picked");
  next.setAttribute("data-picked", "");
  next.tabIndex = -1;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  return true;
}
