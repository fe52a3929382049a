/* The serial line of a guest: a terminal of xterm.js on a socket of ours. */
import { gettext } from "../words.js";
const KEYS = [
  ["Ctrl-C", "\x03"],
  ["Ctrl-D", "\x04"],
  ["Ctrl-Z", "\x1a"],
  ["Ctrl-\\", "\x1c"],
  ["Ctrl-]", "\x1d"],
  ["Escape", "\x1b"],
  ["Tab", "\t"],
];
const PAUSE = 4; // milliseconds between characters: a real line is no faster

/** Load the libraries before the socket opens, so that no message is lost. */
export async function load() {
  const [{ Terminal }, { FitAddon }] = await Promise.all([
    import("../../../vendor/xterm-6.0.0/xterm.mjs"),
    import("../../../vendor/addon-fit-0.11.0/addon-fit.mjs"),
  ]);
  return (...where) => open(Terminal, FitAddon, ...where);
}

function open(Terminal, FitAddon, stage, socket, onReady, onlyWatches) {
  const style = getComputedStyle(document.documentElement);
  const terminal = new Terminal({
    cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    fontFamily: style.getPropertyValue("--mono"),
    fontSize: 13,
    scrollback: 5000,
    disableStdin: onlyWatches,
    screenReaderMode: false,
    theme: { background: style.getPropertyValue("--console-back"), foreground: style.getPropertyValue("--console-text") },
  });
  const fitter = new FitAddon();
  terminal.loadAddon(fitter);
  openWithSheets(terminal, stage);
  terminal.textarea?.setAttribute("aria-label", gettext("Serial console"));
  const send = (text) => socket.readyState === WebSocket.OPEN && socket.send(new TextEncoder().encode(text));
  socket.addEventListener("message", ({ data }) => terminal.write(new Uint8Array(data)));
  terminal.onData(send);
  terminal.onBinary((text) => socket.send(Uint8Array.from(text, (character) => character.charCodeAt(0))));
  socket.addEventListener("open", onReady);
  fitter.fit();
  return {
    keys: KEYS,
    pause: PAUSE,
    key: send,
    type: (character) => send(character === "\n" ? "\r" : character),
    fit() {},
    resize: () => fitter.fit(),
    focus: () => terminal.focus(),
    close() {
      socket.close();
      terminal.dispose();
    },
  };
}

/** A terminal writes its own style elements, which our pages forbid: here they become sheets of the document. */
function openWithSheets(terminal, stage) {
  document.createElement = (tag, ...options) => (tag === "style" ? sheetElement() : Document.prototype.createElement.call(document, tag, ...options));
  try {
    terminal.open(stage);
  } finally {
    delete document.createElement;
  }
}

function sheetElement() {
  const element = document.createElement("template");
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  Object.defineProperty(element, "textContent", { get: () => "", set: (text) => sheet.replaceSync(text) });
  const remove = element.remove.bind(element);
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((kept) => kept !== sheet);
    remove();
  };
  return element;
}
