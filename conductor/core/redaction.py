"""Redacts secrets from foreign texts before they are stored."""

from __future__ import annotations

import re

HIDDEN = "•••"
# The text after such a word is hidden up to the next space or end of a quote; then text that looks like a secret.
NAMED = re.compile(
    r"(?i)\b([\w-]{0,30}(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|private[_-]?key|credentials?|cookie)[\w-]{0,30}"
    r"[\"']?\s*[:=]\s*)(?:\"[^\"]*\"?|'[^']*'?|[^\s,;&}\]]+)"
)
HEADER = re.compile(
    r"(?i)\b((?:authorization|x-auth-token)[\"']?\s*[:=]\s*|(?:bearer|basic)\s+)(?:(?:bearer|basic)\s+)?[^\s,;\"']+"
)
IN_URL = re.compile(r"(?<=://)[^\s/@]+(?=@)")
LONG = re.compile(r"(?<![\w./-])(?=[\w+=-]*\d)(?=[\w+=-]*[A-Za-z])[\w+=-]{40,}")  # a uuid has 36


def redacted(text: str, longest: int) -> str:
    """Return one line that can be stored and shown to operators: printable, redacted, and not too long."""
    text = text[: 4 * longest]  # the hidden text may be longer than its replacement
    for pattern, instead in ((IN_URL, HIDDEN), (HEADER, rf"\1{HIDDEN}"), (NAMED, rf"\1{HIDDEN}"), (LONG, HIDDEN)):
        text = pattern.sub(instead, text)
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
