/* What stands at the top of every page: running workflows, the bell, and a toast when something begun here has ended. */
import { fetchWhole } from "./answers.js";
import { follow } from "./live/page.js";
import { morph, parse } from "./live/morph.js";
import { toast } from "./toasts.js";
import { ngettext } from "./words.js";

const PAUSE = 400;
const SPREAD = 600; // browsers that hear of the same event do not all ask in the same moment
const FRESH_SECONDS = 60;
const AGAIN_PAUSE = 5000;
const MOST_NOTIFIED = 60;
let slot;
let timer;
let isWaiting = false;
let isFollowed = false;

export function startTray() {
  slot = document.querySelector("[data-tray]");
  if (!slot) return;
  document.addEventListener("submit", clear);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && isWaiting) read();
  });
  read();
}

function hear({ kind }) {
  if (kind !== "list" && kind !== "reset") return;
  readIn(PAUSE + Math.random() * SPREAD);
}

function readIn(pause) {
  clearTimeout(timer);
  timer = setTimeout(() => (document.hidden ? (isWaiting = true) : read()), pause);
}

async function read() {
  isWaiting = false;
  const answer = await fetchWhole(slot.dataset.tray);
  if (!answer || answer.status >= 500) readIn(AGAIN_PAUSE);
  if (answer?.status !== 200) return; // it stays as it was; its links lead to the same
  const [fresh] = parse(answer.text);
  const before = document.getElementById("tray");
  const { cursor, caller } = fresh.dataset;
  if (before) morph(before, fresh);
  else slot.replaceChildren(fresh);
  document.dispatchEvent(new CustomEvent("novella:changed"));
  notifyOnce(`novella:notified:${caller}`);
  if (!isFollowed) follow("me", "tray", cursor, hear);
  isFollowed = true;
}

/** Notify of each end once, in the visible tab, unless its own page shows it. Older ends are only in the bell. */
function notifyOnce(key) {
  const notified = load(key);
  const ended = [...slot.querySelectorAll("[data-started-here]")].filter((one) => !notified.includes(one.dataset.ended));
  if (!ended.length || document.hidden) return;
  const since = Date.now() - FRESH_SECONDS * 1000;
  const fresh = ended.filter((one) => Date.parse(one.querySelector("time").dateTime) > since && !isHere(link(one)));
  const good = fresh.filter((one) => one.dataset.tone === "good");
  for (const one of fresh.filter((other) => !good.includes(other))) toast(words(one), { url: link(one), isBad: true });
  if (good.length > 1) toast(ngettext("{count} workflow completed", "{count} workflows completed", good.length), { url: slot.dataset.tray });
  else for (const one of good) toast(words(one), { url: link(one) });
  save(key, [...notified, ...ended.map((one) => one.dataset.ended)].slice(-MOST_NOTIFIED));
}

function words(line) {
  return `${line.querySelector(".name").textContent}: ${line.querySelector(".state-word").textContent}`;
}

function isHere(url) {
  return new URL(url, location.href).pathname === location.pathname;
}

function link(line) {
  return line.querySelector(".name").href;
}

async function clear(event) {
  const form = event.target.closest("#tray form[data-tray-clear]");
  if (!form) return;
  event.preventDefault();
  await fetchWhole(form.action, { method: "POST", body: new FormData(form) });
  await read();
  document.querySelector("#tray-bell > summary")?.focus();
}

function load(key) {
  try {
    const found = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}

function save(key, list) {
  try {
    localStorage.setItem(key, JSON.stringify(list));
  } catch {
    /* No room or not allowed: then it may be notified once more. */
  }
}
