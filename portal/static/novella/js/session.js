/* Countdown of a session's last minutes, with a button to stay signed in. Other tabs continue too. */
import { signInAgain } from "./reauthentication.js";
import { fetchWhole, parsed } from "./answers.js";
import { announce } from "./copy.js";
import { gettext } from "./words.js";
const others = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel("novella-session");
let note;
let endsAt;
let asked = "";

export function startSession() {
  note = document.querySelector("[data-session]");
  if (!note) return;
  const left = Number(note.dataset.left);
  begin(left);
  showCountdown(left);
  note.addEventListener("submit", (event) => {
    event.preventDefault();
    stay();
  });
  if (others) others.onmessage = ({ data }) => data.caller === document.body.dataset.caller && begin(data.left);
  document.addEventListener("novella:returned", ask);
  setInterval(tick, 1000);
}

function begin(left) {
  endsAt = Date.now() + left * 1000;
  tick();
}

/** A page that was loaded, or stayed in, has renewed the session for all. */
function showCountdown(left) {
  others?.postMessage({ caller: document.body.dataset.caller, left });
}

/** The server is asked once when the end is near and once when it has come: another window may have gone on. */
function tick() {
  const left = Math.round((endsAt - Date.now()) / 1000);
  const phase = left <= 0 ? "over" : left <= Number(note.dataset.warning) ? "near" : "";
  note.querySelector("[data-session-clock]").textContent = clock(Math.max(0, left));
  show(phase === "near");
  if (phase === asked) return;
  asked = phase;
  if (phase) ask();
}

function show(isShown) {
  if (note.hidden !== isShown) return;
  note.hidden = !isShown;
  if (isShown) announce(gettext("Your session is about to expire. You can stay signed in."));
}

function clock(left) {
  return `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
}

async function ask() {
  take(await fetchWhole(note.action));
}

async function stay() {
  const body = new FormData(note);
  if (take(await fetchWhole(note.action, { method: "POST", body }))) showCountdown(Math.round((endsAt - Date.now()) / 1000));
}

/** Whether the session goes on. Without an answer, this browser's clock decides. */
function take(response) {
  const answer = response?.ok ? parsed(response.text) : undefined;
  if (answer) begin(answer.left);
  else if (response?.status === 401 || asked === "over") signInAgain();
  return Boolean(answer);
}
