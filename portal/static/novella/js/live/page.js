/* Keeps the page as the server has it, and says in the chip how true that is. */
import { leadsToSignIn, onReturn, signInAgain } from "../reauthentication.js";
import { fetchWhole } from "../answers.js";
import { announce, announceState } from "../copy.js";
import { holdingConsole } from "../console.js";
import { Link } from "./link.js";
import { holdBack } from "../workflows/queue.js";
import { morph, parse } from "./morph.js";
import { isToldAsGone, keepOutOfSight, tellOfMuch } from "../window.js";
import { gettext, ngettext } from "../words.js";

const STALE_AFTER = 4000;
const REFETCH_PAUSE = 400;
const AGAIN_PAUSE = 2000;
const LONGEST_READING = 20000; // ms: a line that hangs is no answer
const LIST = "[data-list], #home-live";
let topic;
let view;
let since;
let port;
let staleTimer;
let refetchTimer;
let rest = REFETCH_PAUSE;
let isReading = false; // the list
let isWantedAgain = false; // for what came meanwhile
let countdown;
let wasLost = false;
let isPaused = false;
let behind; // how many events are on their way, as long as there are any
let unresponsiveSince; // when the cell of this page stopped answering
let linkNow = { link: "connecting" };
const hearers = new Map();

export function startLive() {
  const body = document.body.dataset;
  if (!body.caller) return;
  // A view of the past or of a part stands still, its times too.
  if (document.querySelector('[data-link="paused"]')) document.documentElement.setAttribute("data-stale", "");
  open();
  onReturn(goOn);
  if (body.live && body.liveTopic) {
    ({ liveTopic: topic, liveView: view, live: since } = body);
    const chip = document.querySelector("[data-link-chip]");
    chip.hidden = false;
    chip.addEventListener("click", () => (isPaused ? moveOn() : standStill()));
    follow(topic, view, since, (message) => ACTIONS[message.kind]?.(message));
  }
  addEventListener("pagehide", () => port?.send({ bye: true }));
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });
  addEventListener("online", () => port?.send({ hurry: true }));
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) port?.send({ hurry: true });
  });
}

function open() {
  port = viaWorker() ?? viaThisPage();
}

/** Hear of a topic from a place in the log on; every topic of the page shares the one socket. */
export function follow(wanted, as, from, receive) {
  hearers.set(`${wanted} ${as}`, { topic: wanted, view: as, since: from, receive });
  greet(wanted, as, from);
}

function greet(wanted, as, from) {
  port?.send({ hello: document.body.dataset.caller, address: address(), topic: wanted, view: as, since: from });
}

/** The person is back: follow again, from where the log was when the session ended. */
function goOn() {
  port?.send({ again: true });
  for (const heard of hearers.values()) if (!rests(heard)) greet(heard.topic, heard.view, heard.since);
}

/** Nothing on the page changes by itself until it is wanted again; what happened by then is caught up with. */
function standStill() {
  isPaused = true;
  behind = undefined;
  clearTimeout(staleTimer);
  clearInterval(countdown);
  port?.send({ leave: true, topic, view });
  document.documentElement.setAttribute("data-stale", "");
  show("paused", gettext("paused"), gettext("Click to resume"));
  announce(gettext("Live updates paused"));
}

function moveOn() {
  isPaused = false;
  showLink(linkNow);
  greet(topic, view, hearers.get(`${topic} ${view}`).since);
}

function rests(heard) {
  return isPaused && heard.topic === topic && heard.view === view;
}

function address() {
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/live?language=${document.documentElement.lang}`;
}

/** All tabs share one socket where the browser can; each has its own where it cannot. */
function viaWorker() {
  if (typeof SharedWorker === "undefined") return undefined;
  try {
    const worker = new SharedWorker(document.body.dataset.worker, { type: "module", name: "novella-live" });
    worker.port.onmessage = ({ data }) => hear(data);
    worker.port.start();
    return { send: (message) => worker.port.postMessage(message) };
  } catch {
    return undefined;
  }
}

function viaThisPage() {
  let link = new Link(address(), hear);
  return {
    send(message) {
      if (message.hello) link.follow(message.topic, message.view, message.since);
      else if (message.leave) link.leave(message.topic, message.view);
      else if (message.hurry) link.hurry();
      else if (message.bye) link.close();
      else if (message.again) link = new Link(address(), hear);
    },
  };
}

function hear(message) {
  if (message.link) showLink(message);
  else {
    const heard = hearers.get(`${message.topic} ${message.view}`);
    if (!heard || rests(heard)) return; // of another tab, or sent before the page was paused
    if (message.seq) heard.since = message.seq;
    heard.receive(message);
  }
}

const ACTIONS = {
  current: () => caughtUp(),
  unresponsive: () => goUnresponsive(),
  behind: ({ missed }) => catchUp(missed),
  fragments: ({ html }) => {
    patch(html);
    caughtUp();
  },
  rows: ({ rows }) => {
    rows.forEach(({ id, html }) => patchRow(id, html));
    caughtUp();
  },
  list: () => refetch(),
  reset: ({ missed }) => {
    if (missed) catchUp(missed);
    tellOfMuch();
    refetch();
  },
  gone: () => refetch(),
};

function catchUp(missed) {
  behind = missed;
  showLink(linkNow);
}

function caughtUp() {
  if (behind === undefined && unresponsiveSince === undefined) return;
  behind = unresponsiveSince = undefined;
  showLink(linkNow);
}

function patch(pieces) {
  holdingConsole(() => {
    for (const element of pieces.flatMap(parse)) {
      const before = element.id && document.getElementById(element.id);
      if (before) replace(before, element);
    }
  });
  changed();
}

function replace(before, after) {
  const word = stateOf(before);
  morph(before, after);
  const now = document.getElementById(after.id);
  const newWord = now && stateOf(now);
  if (word && newWord && word !== newWord) tellState(now, newWord);
}

function stateOf(element) {
  return element.querySelector(".state-word")?.textContent;
}

function tellState(element, word) {
  const cell = element.querySelector("[data-live-cell]");
  if (cell) {
    cell.classList.remove("changed");
    void cell.offsetWidth; // begins the fade anew
    cell.classList.add("changed");
  }
  const name = element.querySelector("h1, .name")?.textContent.trim();
  if (name) announceState(`${name}: ${word}`);
}

function patchRow(id, html) {
  const before = document.getElementById(id);
  if (before && html) patch([html]);
  else if (before ? isToldAsGone(id) : keepOutOfSight(id, html)) return;
  else if (before || html) refetch();
}

/** Rows come or go: read the list as this address has it. Nothing moves under the pointer or the focus by itself. */
function refetch(pause = rest) {
  // News that never pause must not put it off for ever: the first of them sets the time.
  if (isReading) isWantedAgain = true;
  else refetchTimer ??= setTimeout(readAgain, pause);
}

/** One reading at a time, and then a rest of its length: an answer overtakes no newer one, and a busy list leaves room. */
async function readAgain() {
  refetchTimer = undefined;
  if (!document.querySelector(LIST)) return location.reload();
  isReading = true;
  const [address, began] = [location.href, performance.now()];
  const answer = await fetchWhole(address, { signal: AbortSignal.timeout(LONGEST_READING) });
  isReading = false;
  const isOld = location.href !== address; // the list is another one by now
  const isMissing = !answer || answer.status >= 500; // the change that led here is not sent twice
  if (!isOld && !isMissing) take(answer);
  rest = Math.max(REFETCH_PAUSE, performance.now() - began);
  if (isMissing) refetch(AGAIN_PAUSE);
  else if (isOld || isWantedAgain) refetch();
  isWantedAgain = false;
}

function take(answer) {
  if (leadsToSignIn(answer.away)) signInAgain();
  else if (answer.away) location.assign(answer.away);
  else if (answer.ok) {
    if (holdBack(document.querySelector(LIST), answer.text)) changed();
    else patch([answer.text]);
    caughtUp();
  }
}

function changed() {
  document.dispatchEvent(new CustomEvent("novella:changed"));
}

const WORDS = {
  live: gettext("live"),
  connecting: gettext("connecting"),
  reconnecting: gettext("reconnecting"),
  "signed-out": gettext("signed out"),
};

function showLink(now) {
  const { link, way, liveUntil, pause } = now;
  linkNow = now;
  if (link === "signed-out") signInAgain();
  if (!topic || isPaused) return; // nothing on this page is kept current but what stands at its top
  clearTimeout(staleTimer);
  clearInterval(countdown);
  const root = document.documentElement;
  if (link === "live" && behind) {
    root.setAttribute("data-stale", "");
    show("catching-up", ngettext("catching up ({count} event)", "catching up ({count} events)", behind));
  } else if (link === "live") {
    root.removeAttribute("data-stale");
    show("live", WORDS.live, way === "polls" ? gettext("This network blocks WebSockets. The page polls for updates instead.") : gettext("Click to pause"));
    if (wasLost) announce(gettext("Live updates resumed"));
    wasLost = false;
  } else if (link === "signed-out") {
    root.setAttribute("data-stale", "");
    show("stale", WORDS["signed-out"]);
  } else {
    show(link === "stale" ? "reconnecting" : link, WORDS[link] ?? WORDS.reconnecting);
    staleTimer = setTimeout(() => goStale(liveUntil), link === "connecting" ? STALE_AFTER * 2 : STALE_AFTER);
    if (link === "stale" && root.hasAttribute("data-stale")) goStale(liveUntil);
    if (pause) countDown(Date.now() + pause);
  }
}

/** When it is tried again: in the chip, or behind it where that says since when the page is stale. */
function countDown(until) {
  const update = () => {
    const seconds = Math.ceil((until - Date.now()) / 1000);
    if (seconds < 1) return clearInterval(countdown);
    const text = gettext("reconnecting in {seconds} s", { seconds });
    const chip = document.querySelector("[data-link-chip]");
    if (chip?.dataset.link === "stale") chip.title = text;
    else show("reconnecting", text);
  };
  countdown = setInterval(update, 1000);
  update();
}

function goStale(liveUntil) {
  wasLost = true;
  document.documentElement.setAttribute("data-stale", "");
  const since = new Date(liveUntil ?? Date.now()).toTimeString().slice(0, 5);
  show("stale", gettext("outdated since {time}", { time: since }));
  announce(gettext("Live updates lost"));
}

/** The connection works, but the cell of this page does not answer: the page keeps what it shows. */
function goUnresponsive() {
  behind = undefined;
  goStale((unresponsiveSince ??= Date.now()));
  document.querySelector("[data-link-chip]")?.setAttribute("title", gettext("The cell of this page doesn't respond"));
}

function show(state, word, title = "") {
  const chip = document.querySelector("[data-link-chip]");
  if (!chip) return;
  chip.dataset.link = state;
  chip.title = title;
  chip.querySelector("[data-link-word]").textContent = word;
}
