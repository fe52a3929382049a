/* Forms: sent once, drafts kept, problems shown first. A form that the server could not answer is not sent: the browser's
   own error page would take the place of what was typed. */
import { isReachable } from "./live/reachable.js";
import { gettext } from "./words.js";

const DRAFT = "novella:draft:";
const SENT = "novella:sent";

export function startForms() {
  document.addEventListener("submit", sendWhenReachable, true);
  forgetWhatArrived();
  for (const form of document.querySelectorAll("form[data-once]")) sendOnce(form);
  for (const form of document.querySelectorAll("form[data-draft]")) keepDraft(form);
  document.querySelector("[data-focus-me]")?.focus();
  document.addEventListener("submit", ({ target }) => bringToken(target), true);
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  });
}

const ANSWER_WITHIN = 4000; // ms

/** Ask first whether the server is there, then send; with everything kept and a message where it is not. */
async function sendWhenReachable(event) {
  const { target: form, submitter } = event;
  const method = (submitter?.getAttribute("formmethod") ?? form.getAttribute("method") ?? "get").toLowerCase();
  if (method !== "post" || form.matches("[hx-post]") || form.dataset.reached) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  if (form.dataset.asking) return;
  form.dataset.asking = "yes";
  form.querySelector("[data-unreachable]")?.remove();
  const isThere = await isReachable(ANSWER_WITHIN);
  delete form.dataset.asking;
  if (!isThere) return form.prepend(unreachable());
  form.dataset.reached = "yes";
  form.requestSubmit(submitter?.isConnected ? submitter : null);
  delete form.dataset.reached;
}

function unreachable() {
  const note = document.createElement("div");
  note.className = "note";
  note.dataset.tone = "bad";
  note.dataset.unreachable = "";
  note.setAttribute("role", "alert");
  note.textContent = gettext("The server doesn't answer. Nothing was sent, and your input is kept. Try again in a moment.");
  return note;
}

/** What is pushed to a page is drawn for all who see it: a form in it has no token, and takes one that the page has. */
function bringToken(form) {
  if (form.getAttribute("method") !== "post" || form.querySelector("input[name=csrfmiddlewaretoken]")) return;
  const known = document.querySelector("input[name=csrfmiddlewaretoken]");
  if (known) form.prepend(known.cloneNode());
}

/** A second click does nothing until the page is shown again. */
function sendOnce(form) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
  window.addEventListener("pageshow", () => delete form.dataset.sent);
}

/** A draft goes when its form led on to another page of ours, not when it was only sent: the session may have ended. */
function forgetWhatArrived() {
  const key = take(SENT);
  const isBack = [...document.querySelectorAll("form[data-draft]")].some((form) => DRAFT + form.dataset.draft === key);
  if (key && !isBack && document.body.dataset.caller) remove(key);
}

/** What was typed outlives a closed tab or an ended session; what was launched does not come back. */
function keepDraft(form) {
  const key = DRAFT + form.dataset.draft;
  const skip = new Set(["csrfmiddlewaretoken", "once"]);
  const isFresh = !document.getElementById("problems") && !location.search;
  if (isFresh) restore(form, read(key));
  form.addEventListener("input", () => write(key, [...new FormData(form)].filter(([name]) => !skip.has(name))));
  form.addEventListener("submit", () => write(SENT, key));
  if (document.getElementById("problems")) form.dispatchEvent(new Event("input", { bubbles: true }));
}

function restore(form, pairs) {
  let changed = false;
  for (const [name, value] of pairs) {
    const field = form.elements[name];
    if (!field || (field instanceof RadioNodeList && ![...field].some((radio) => radio.value === value && !radio.disabled))) continue;
    if (field.value !== value) {
      field.value = value;
      changed = true;
    }
  }
  if (changed) setTimeout(() => form.dispatchEvent(new Event("change", { bubbles: true })), 0);
}

function read(key) {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "[]");
  } catch {
    return [];
  }
}

function write(key, pairs) {
  try {
    localStorage.setItem(key, JSON.stringify(pairs));
  } catch {
    /* No room or not allowed: then there is no draft. */
  }
}

function take(key) {
  const found = read(key);
  remove(key);
  return typeof found === "string" ? found : "";
}

function remove(key) {
  try {
    localStorage.removeItem(key);
  } catch {
    /* As above. */
  }
}
