/* Keys as guests know them: X11 symbols, and where they are on a keyboard with the layout of the United States. */
const SYMBOLS = { Backspace: 0xff08, Tab: 0xff09, Enter: 0xff0d, Escape: 0xff1b, Delete: 0xffff, ShiftLeft: 0xffe1, ControlLeft: 0xffe3, AltLeft: 0xffe9, MetaLeft: 0xffeb, PrintScreen: 0xff61 };
for (let number = 1; number <= 12; number += 1) SYMBOLS[`F${number}`] = 0xffbd + number;

const PLAIN = { "`": "Backquote", "-": "Minus", "=": "Equal", "[": "BracketLeft", "]": "BracketRight", "\\": "Backslash", ";": "Semicolon", "'": "Quote", ",": "Comma", ".": "Period", "/": "Slash", " ": "Space", "\n": "Enter", "\t": "Tab" };
const SHIFTED = { "~": "`", "!": "1", "@": "2", "#": "3", $: "4", "%": "5", "^": "6", "&": "7", "*": "8", "(": "9", ")": "0", _: "-", "+": "=", "{": "[", "}": "]", "|": "\\", ":": ";", '"': "'", "<": ",", ">": ".", "?": "/" };

export const symbolOf = (code) => SYMBOLS[code];

/** What is pressed for one character: symbol, place on the keyboard where it has one, and whether with Shift. */
export function pressOf(character) {
  const point = character.codePointAt(0);
  const isUpper = character >= "A" && character <= "Z";
  const base = SHIFTED[character] ?? (isUpper ? character.toLowerCase() : character);
  const code = /^[a-z]$/.test(base) ? `Key${base.toUpperCase()}` : /^[0-9]$/.test(base) ? `Digit${base}` : PLAIN[base];
  const symbol = SYMBOLS[code] ?? (point < 0x100 ? point : 0x01000000 | point);
  return { symbol, code, isShifted: base !== character };
}
