"""Takes out of foreign texts what looks like a secret, before they are kept."""

from __future__ import annotations

import re

HIDDEN = "•••"
# Whatever follows such a word is hidden up to the next space or end of a quote; then what is a secret by its looks.
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
    """One line that can be kept and shown to operators: printable, without what looks like a secret, not too long."""
    text = text[: 4 * longest]  # what is hidden may be longer than what stands for it
    for pattern, instead in ((IN_URL, HIDDEN), (HEADER, rf"\1{HIDDEN}"), (NAMED, rf"\1{HIDDEN}"), (LONG, HIDDEN)):
        text = pattern.sub(instead, text)
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
