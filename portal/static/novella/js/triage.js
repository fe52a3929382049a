/* What needs an operator: the number in the navigation, and a list that time alone makes longer. */
import { fetchWhole, parsed } from "./answers.js";
import { morph, parse } from "./live/morph.js";
import { follow } from "./live/page.js";

const PAUSE = 1500;
const SPREAD = 1000; // browsers that hear of the same event do not all ask in the same moment
const LOOK_AGAIN = 20_000; // leases expire and hosts stop responding without an event
const PLACES = ".nav a[href='/triage']"; // operators alone have them
let timer;
let isWaiting = false;
let isFollowed = false;

export function startTriage() {
  if (!document.querySelector(PLACES)) return;
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && isWaiting) look();
  });
  document.addEventListener("keydown", openAdvice);
  setInterval(() => (document.hidden ? (isWaiting = true) : look()), LOOK_AGAIN);
  count();
}

function hear({ kind }) {
  if (kind !== "list" && kind !== "reset") return;
  timer ??= setTimeout(() => {
    timer = undefined;
    if (document.hidden) isWaiting = true;
    else count();
  }, PAUSE + Math.random() * SPREAD);
}

async function look() {
  isWaiting = false;
  await count();
  const list = document.getElementById("triage-live");
  if (!list) return;
  const text = await read(location.href);
  const fresh = text && parse(text).find((element) => element.id === list.id);
  if (!fresh) return;
  morph(list, fresh);
  document.dispatchEvent(new CustomEvent("novella:changed"));
}

async function count() {
  const places = [...document.querySelectorAll(PLACES)];
  const answer = parsed(await read(`${places[0].href}/count`));
  if (!answer) return; // it stays as it was; its link leads to the same, and it is asked for again soon
  const { count: number, cursor } = answer;
  for (const place of places) show(place, number);
  if (!isFollowed) follow("triage", "count", cursor, hear);
  isFollowed = true;
}

function show(place, number) {
  const mark = place.querySelector(".nav-count") ?? Object.assign(document.createElement("b"), { className: "nav-count" });
  if (!mark.isConnected) place.querySelector("kbd") ? place.querySelector("kbd").before(mark) : place.append(mark);
  mark.hidden = number === 0;
  mark.textContent = number > 99 ? "99+" : String(number);
  place.title = number ? `${number} to look at` : "";
}

async function read(url) {
  const answer = await fetchWhole(url);
  return answer?.status === 200 && !answer.redirected ? answer.text : undefined;
}

/** a: the advice of the picked line, with the cursor where the reason goes. */
function openAdvice(event) {
  if (event.key !== "a" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
  const advice = document.querySelector("#triage-live [data-row][data-picked] [data-advice]");
  if (!advice || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  if (advice.matches("details")) {
    advice.open = true;
    advice.querySelector("input[name=reason]")?.focus();
  } else advice.focus();
}
