"""Redacts secrets from texts of plugins, drivers and programs before they are stored."""

from __future__ import annotations

import re

HIDDEN = "•••"
# The value after such a name is hidden, up to the next space or the end of its quotes.
NAMED = re.compile(
    r"(?i)\b([\w-]{0,30}(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|private[_-]?key|credentials?|cookie)[\w-]{0,30}"
    r"[\"']?\s*[:=]\s*)(?:\"[^\"]*\"?|'[^']*'?|[^\s,;&}\]]+)"
)
HEADER = re.compile(
    r"(?i)\b((?:authorization|x-auth-token)[\"']?\s*[:=]\s*|(?:bearer|basic)\s+)(?:(?:bearer|basic)\s+)?[^\s,;\"']+"
)
IN_URL = re.compile(r"(?<=://)[^\s/@]+(?=@)")
# What looks like a secret, because it is longer than a uuid.
LONG = re.compile(r"(?<![\w./-])(?=[\w+=-]*\d)(?=[\w+=-]*[A-Za-z])[\w+=-]{40,}")  # a uuid has 36


def redacted(text: str, longest: int) -> str:
    """Return a text as one printable line without secrets, of at most `longest` characters."""
    text = text[: 4 * longest]  # replacements may shorten the text
    for pattern, instead in ((IN_URL, HIDDEN), (HEADER, rf"\1{HIDDEN}"), (NAMED, rf"\1{HIDDEN}"), (LONG, HIDDEN)):
        text = pattern.sub(instead, text)
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
