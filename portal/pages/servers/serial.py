"""Output of a serial console as plain text: escape sequences and overwritten lines are resolved."""

from __future__ import annotations

import re

# CSI … letter, OSC … BEL or ST, and short terminal escapes.
ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|\Z)|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
)
CONTROLS = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\x1b")


def readable(text: str) -> str:
    """Return plain lines: a carriage return overwrites the line, a backspace removes a character."""
    plain = CONTROLS.sub("", ESCAPES.sub("", text.replace("\r\n", "\n")))
    return "\n".join(_settled(line) for line in plain.split("\n")).rstrip("\n")


def _settled(line: str) -> str:
    if "\r" not in line and "\b" not in line:
        return line
    cells: list[str] = []
    column = 0
    for character in line:
        if character == "\r":
            column = 0
        elif character == "\b":
            column = max(0, column - 1)
        else:
            cells[column : column + 1] = [character]
            column += 1
    return "".join(cells)
