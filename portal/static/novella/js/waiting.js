/* Parts of a page that load later: a skeleton while they take long, an error when they fail. */
import { leadsToSignIn } from "./reauthentication.js";
import { gettext } from "./words.js";

const AFTER = 200; // ms: what comes sooner would only flicker
const BONES = 6;
const waits = new WeakMap(); // of each request of htmx, how to end its wait

export function startWaiting() {
  document.addEventListener("htmx:beforeRequest", ({ detail }) => {
    // What asks by itself as it arrives says so in words of its own.
    if (detail.requestConfig.verb === "get" && detail.elt.matches("form")) waits.set(detail.xhr, bare(detail.target));
  });
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    waits.get(detail.xhr)?.();
    const { successful, xhr, target } = detail;
    if (leadsToSignIn(xhr.getResponseHeader("HX-Redirect"))) return;
    document.getElementById("unanswered")?.remove();
    if (!successful && xhr.readyState === XMLHttpRequest.DONE) showFailure(target, xhr, detail.elt);
  });
}

/** Bones after a while; call what it gives when the answer is there, in whichever words. */
export function bare(element, draw = () => {}) {
  const timer = setTimeout(() => {
    element.setAttribute("aria-busy", "true");
    draw();
  }, AFTER);
  return () => {
    clearTimeout(timer);
    element.removeAttribute("aria-busy");
  };
}

/** Lines in place of words that are not there yet. */
export function bones() {
  const box = document.createElement("div");
  box.className = "bones";
  box.ariaHidden = "true";
  for (let number = 0; number < BONES; number++) box.append(document.createElement("span"));
  return box;
}

/** What failed, what still holds, what to do about it, and what to quote. */
function showFailure(target, xhr, caller) {
  const box = document.createElement("div");
  box.id = "unanswered";
  box.className = "note";
  box.dataset.tone = "bad";
  box.setAttribute("role", "alert");
  const title = document.createElement("strong");
  title.textContent = xhr.status ? gettext("Couldn't load the page: error {status}", { status: xhr.status }) : gettext("The server can't be reached");
  const holds = document.createElement("p");
  holds.textContent = gettext("This page shows earlier data. Nothing was changed.");
  box.append(title, holds, line(xhr.getResponseHeader("x-openstack-request-id"), caller));
  (target.closest(".beside") ?? target).before(box);
}

function line(reference, caller) {
  const made = document.createElement("div");
  made.className = "line small";
  const again = button(gettext("Retry"), "button small");
  again.addEventListener("click", () => caller.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true })));
  if (caller.matches("form")) made.append(again);
  if (reference) {
    const code = document.createElement("code");
    code.textContent = reference;
    const copy = button(gettext("Copy"), "button small");
    copy.dataset.copy = reference;
    made.append(code, copy);
  }
  return made;
}

function button(words, kind) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = kind;
  made.textContent = words;
  return made;
}
