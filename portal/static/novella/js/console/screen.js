/* The screen of a guest: noVNC on a socket of ours. */
import { pressOf, symbolOf } from "./keys.js";
import { gettext } from "../words.js";

export const KEYS = [
  ["Ctrl-Alt-Delete", ["ControlLeft", "AltLeft", "Delete"]],
  ["Ctrl-Alt-Backspace", ["ControlLeft", "AltLeft", "Backspace"]],
  ...[1, 2, 3, 7].map((number) => [`Ctrl-Alt-F${number}`, ["ControlLeft", "AltLeft", `F${number}`]]),
  ["Alt-Tab", ["AltLeft", "Tab"]],
  ["Escape", ["Escape"]],
  ["Super", ["MetaLeft"]],
  [gettext("Print screen"), ["PrintScreen"]],
];
const PAUSE = 12; // milliseconds between keys: guests lose what comes faster

/** Load the libraries before the socket opens, so that no message is lost. */
export async function load() {
  const { default: RFB } = await import("../../../vendor/novnc-1.7.0/core/rfb.js");
  return (...where) => open(RFB, ...where);
}

function open(RFB, stage, socket, onReady, onlyWatches) {
  const rfb = new RFB(stage, socket, { shared: true });
  rfb.background = "transparent";
  rfb.scaleViewport = true;
  rfb.viewOnly = onlyWatches;
  rfb.addEventListener("connect", onReady);
  let isOver = false;
  rfb.addEventListener("disconnect", () => (isOver = true));
  const press = (symbol, code, isDown) => rfb.sendKey(symbol, code, isDown);
  return {
    keys: KEYS,
    pause: PAUSE,
    key(codes) {
      for (const code of codes) press(symbolOf(code), code, true);
      for (const code of [...codes].reverse()) press(symbolOf(code), code, false);
    },
    type(character) {
      const { symbol, code, isShifted } = pressOf(character);
      if (isShifted) press(symbolOf("ShiftLeft"), "ShiftLeft", true);
      press(symbol, code, true);
      press(symbol, code, false);
      if (isShifted) press(symbolOf("ShiftLeft"), "ShiftLeft", false);
    },
    fit(isFitted) {
      rfb.scaleViewport = isFitted;
      rfb.clipViewport = !isFitted;
      rfb.dragViewport = false;
    },
    resize() {},
    focus: () => rfb.focus(),
    close: () => isOver || rfb.disconnect(),
  };
}
