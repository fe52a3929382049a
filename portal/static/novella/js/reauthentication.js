/* Sign-in over the page after the session has ended. The page keeps its input, and other tabs continue too. */
import { fetchWhole, parsed } from "./answers.js";
import { gettext } from "./words.js";
const others = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel("novella-again");
let isOut = false;
let goOn = () => {};

export function startReauthentication() {
  if (!document.getElementById("again-template")) return;
  document.addEventListener("submit", holdBack, true);
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    if (leadsToSignIn(event.detail.xhr.getResponseHeader("HX-Redirect"))) {
      event.preventDefault();
      isOut = true;
      show();
    }
  });
  if (others) {
    others.onmessage = ({ data }) => {
      if (isOut && data.caller === document.body.dataset.caller) enter(data.csrf);
    };
    announceSession(document.getElementById("again-template").content.querySelector("input[name=csrfmiddlewaretoken]").value);
  }
}

/** Announce the session of this tab, so that tabs that wait for a sign-in continue. */
function announceSession(csrf) {
  others?.postMessage({ caller: document.body.dataset.caller, csrf });
}

/** Set what happens after the sign-in. */
export function onReturn(act) {
  goOn = act;
}

export function leadsToSignIn(address) {
  return Boolean(address) && new URL(address, location.href).pathname === "/sign-in";
}

/** Show the dialog when the session is found to have ended. A dialog that the user has dismissed returns with the next form. */
export function signInAgain() {
  if (isOut) return;
  isOut = true;
  show();
}

function show() {
  const box = dialog() ?? made();
  if (!box || box.open) return;
  for (const other of document.querySelectorAll("dialog[open]")) other.close();
  box.showModal();
  box.querySelector("#again-password").focus();
}

function dialog() {
  return document.getElementById("again");
}

/** Create the dialog when it is first needed. */
function made() {
  const template = document.getElementById("again-template");
  if (!template) return undefined;
  document.body.append(template.content.cloneNode(true));
  const form = dialog().querySelector("form");
  const first = form.action;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, first);
  });
  return dialog();
}

/** Hold back forms until the user has signed in: the answer would be the sign-in page. */
function holdBack(event) {
  if (!isOut || event.target.closest("#again") || event.target.method !== "post") return;
  event.preventDefault();
  event.stopImmediatePropagation();
  show();
}

async function send(form, first) {
  const body = new FormData(form);
  const response = await fetchWhole(form.action, { method: "POST", body });
  const answer = parsed(response?.text);
  if (response?.redirected || !answer) {
    ask(form, first, "password", gettext("No response. Try again; your input on this page is kept."));
  } else if (answer.problem) {
    say(answer.problem);
  } else if (answer.code) {
    putToken(answer.csrf);
    ask(form, answer.code, "code");
  } else if (answer.away) {
    location.assign(answer.away);
  } else {
    ask(form, first, "password");
    enter(answer.csrf);
    announceSession(answer.csrf);
  }
}

function ask(form, action, step, problem = "") {
  form.action = action;
  for (const field of form.querySelectorAll("[data-again-step]")) field.hidden = field.dataset.againStep !== step;
  for (const field of form.querySelectorAll("#again-password, #again-code")) field.value = "";
  say(problem);
  form.querySelector(step === "code" ? "#again-code" : "#again-password").focus();
}

function say(problem) {
  const note = dialog().querySelector("[data-again-problem]");
  note.textContent = problem;
  note.hidden = !problem;
  for (const field of dialog().querySelectorAll("#again-password, #again-code")) {
    field.setAttribute("aria-invalid", String(Boolean(problem)));
    field.setAttribute("aria-describedby", problem ? note.id : "");
  }
}

function enter(csrf) {
  putToken(csrf);
  isOut = false;
  dialog()?.close();
  document.dispatchEvent(new CustomEvent("novella:returned"));
  goOn();
}

function putToken(csrf) {
  for (const root of [document, document.getElementById("again-template").content]) {
    for (const field of root.querySelectorAll("input[name=csrfmiddlewaretoken]")) field.value = csrf;
  }
}
