/* The consoles of a server in its page: which one is open, what its socket says, and the tools beside it. */
import { fetchWhole, parsed } from "../answers.js";
import * as line from "./line.js";
import * as screen from "./screen.js";
import { gettext } from "../words.js";

const PLACES = { vnc: screen, serial: line };
const NAMES = { vnc: gettext("Screen"), serial: gettext("Serial console") };
const CUT = new Set([1001, 1006, 1011, 1012]); // the way was cut, not the console
const PAUSES = [1000, 3000, 8000, 15000];
const LOOK_AGAIN = 3000;

const pane = document.querySelector("[data-console-pane]");
if (pane) start(pane);

function start(root) {
  const find = (name) => root.querySelector(`[data-pane-${name}]`);
  const stage = find("stage");
  const onlyWatches = "watch" in root.dataset;
  let kind = "";
  let console_ = null;
  let tries = 0;
  let round = 0; // whatever an earlier round still says is old
  let retry = 0;
  let timer = 0;
  let typing = 0;

  root.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button || button.disabled) return;
    if (button.dataset.paneKind !== undefined) choose(button.dataset.paneKind);
    else if (button.dataset.paneKey !== undefined) pressKey(Number(button.dataset.paneKey));
    else if ("deskReconnect" in button.dataset) connect();
    else if ("deskFit" in button.dataset) fit(button);
    else if ("deskFull" in button.dataset) full();
    else if ("deskStop" in button.dataset) typing += 1;
  });
  find("text-form")?.addEventListener("submit", (event) => {
    event.preventDefault();
    type(find("text").value);
  });
  document.addEventListener("novella:changed", offerWhatIsOpen);
  new ResizeObserver(() => console_?.resize()).observe(stage);
  addEventListener("pagehide", () => console_?.close());
  document.addEventListener("fullscreenchange", () => console_?.focus());
  if (root.dataset.path) choose("vnc");
  else if (onlyWatches) choose(root.dataset.watch);
  else if (root.dataset.kinds?.split(" ").includes(location.hash.slice(1))) choose(location.hash.slice(1));

  function choose(next) {
    kind = next;
    root.dataset.kind = kind;
    for (const button of root.querySelectorAll("[data-pane-kind]")) button.setAttribute("aria-pressed", String(button.dataset.paneKind === kind));
    if (!root.dataset.path && !onlyWatches) history.replaceState(null, "", kind ? `#${kind}` : location.pathname);
    offerWhatIsOpen();
    tries = 0;
    if (kind) connect();
    else hangUp();
  }

  /** The form that shares a console shares the open one. */
  function offerWhatIsOpen() {
    const offered = root.querySelector("#share-kind");
    if (offered && kind) offered.value = kind;
  }

  function hangUp() {
    round += 1;
    typing += 1;
    clearTimeout(retry);
    clearInterval(timer);
    find("timer").textContent = "";
    console_?.close();
    console_ = null;
    stage.replaceChildren();
    say("", "");
  }

  async function connect() {
    hangUp();
    const mine = round;
    say("working", gettext("Connecting…"));
    const open = await PLACES[kind].load().catch(() => null);
    const ticket = open ? await askForTicket() : { error: gettext("The portal can't be reached.") };
    if (mine !== round) return;
    if (ticket.error) {
      refused(ticket);
      return;
    }
    const url = new URL(ticket.path, location.origin);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    url.searchParams.set("language", document.documentElement.lang); // in which it says why it ends
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("close", ({ code, reason }) => mine === round && ended(code, reason));
    console_ = open(stage, socket, () => mine === round && ready(ticket.seconds), onlyWatches);
    showKeys();
  }

  async function askForTicket() {
    if (root.dataset.path) {
      const path = root.dataset.path;
      return tries++ ? { error: gettext("This link works once. Request a new one.") } : { path: `/${path}`, seconds: 0 };
    }
    const token = root.querySelector("[name=csrfmiddlewaretoken]").value;
    const answer = await fetchWhole(`${root.dataset.url}/${kind}`, { method: "POST", headers: { "X-CSRFToken": token } });
    if (!answer) return { error: gettext("The portal can't be reached."), isUnknown: true };
    return parsed(answer.text) ?? { error: gettext("The console can't be opened now."), isUnknown: true };
  }

  function ready(seconds) {
    tries = root.dataset.path ? 1 : 0;
    say("good", gettext("{name} connected", { name: NAMES[kind] }));
    console_?.resize();
    setTimeout(() => console_?.focus(), 0);
    if (seconds) countDown(Date.now() + seconds * 1000);
  }

  function countDown(end) {
    const show = () => {
      const left = Math.max(0, Math.round((end - Date.now()) / 1000));
      const parts = [Math.floor(left / 3600), Math.floor(left / 60) % 60, left % 60];
      find("timer").textContent = gettext("{time} left", { time: [parts[0], ...parts.slice(1, 3).map((part) => String(part).padStart(2, "0"))].join(":") });
    };
    show();
    timer = setInterval(show, 1000);
  }

  function ended(code, reason) {
    clearInterval(timer);
    typing += 1;
    find("timer").textContent = "";
    const isCut = CUT.has(code) && !root.dataset.path && tries < PAUSES.length;
    say(isCut ? "waiting" : "bad", isCut ? gettext("Connection lost. Reconnecting…") : reason || gettext("The console has ended."));
    if (isCut) {
      retry = setTimeout(connect, PAUSES[tries]);
      tries += 1;
    } else if (!root.dataset.path) retry = setTimeout(explain, LOOK_AGAIN);
  }

  /** Why it has ended is known better a moment later. Who only watches goes on as soon as there is something to see. */
  async function explain() {
    const mine = round;
    const ticket = await askForTicket();
    if (mine !== round) return;
    if (ticket.isUnknown) return;
    if (ticket.error) refused(ticket);
    else if (onlyWatches) connect();
  }

  function refused({ error, waits }) {
    say(waits ? "waiting" : "bad", error);
    if (waits) retry = setTimeout(explain, LOOK_AGAIN);
  }

  /** Screen readers announce the state: do not repeat it while it stays the same. */
  function say(tone, words) {
    root.dataset.tone = tone;
    if (find("state").textContent !== words) find("state").textContent = words;
  }

  function showKeys() {
    if (onlyWatches) return;
    const buttons = console_.keys.map(([name], index) => {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", className: "menu-item", textContent: name });
      button.dataset.paneKey = String(index);
      return button;
    });
    find("keys").replaceChildren(...buttons);
  }

  function pressKey(index) {
    console_?.key(console_.keys[index][1]);
    root.querySelector("details[open]")?.removeAttribute("open");
    console_?.focus();
  }

  /** One character after another, so that the guest loses none; closing the dialog or the console ends it. */
  async function type(text) {
    const dialog = find("text-form").closest("dialog");
    const mine = ++typing;
    const characters = [...text.replaceAll("\r\n", "\n")];
    const progress = find("typed");
    find("typing").hidden = false;
    for (const [index, character] of characters.entries()) {
      if (mine !== typing || !console_) break;
      console_.type(character);
      progress.textContent = gettext("{done} of {count}", { done: index + 1, count: characters.length });
      await new Promise((resolve) => setTimeout(resolve, console_?.pause ?? 0));
    }
    find("typing").hidden = true;
    if (mine === typing) {
      find("text").value = "";
      dialog.close();
      console_?.focus();
    }
  }

  function fit(button) {
    const isFitted = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(isFitted));
    console_?.fit(isFitted);
  }

  function full() {
    if (document.fullscreenElement) document.exitFullscreen();
    else root.requestFullscreen();
  }
}
