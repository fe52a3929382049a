"""Patterns from callers, compiled by RE2: matching takes time linear in the text, without backtracking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from conductor.core.errors import Invalid

LONGEST = 255  # characters of a pattern
MOST_MEMORY = 1 << 20  # bytes of a compiled pattern: nested counted repeats grow beyond any length of text
ANY_TEXT: Mapping[str, str] = {"*": ".*"}


@dataclass(frozen=True)
class Pattern:
    """A compiled pattern. Two patterns of the same text are equal."""

    text: str
    _compiled: Any

    def is_found_in(self, text: str) -> bool:
        """Whether the pattern matches some part of the text."""
        return self._compiled.search(_encodable(text)) is not None

    def fits(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        return self._compiled.fullmatch(_encodable(text)) is not None

    def groups_of(self, text: str) -> dict[str, str] | None:
        """Return the named groups of a match of the whole text. None when it does not match."""
        found = self._compiled.fullmatch(_encodable(text))
        return None if found is None else found.groupdict()


def expression(text: str, *, field: str) -> Pattern:
    """Compile a regular expression that ignores case, in the syntax of RE2.

    Raises:
        Invalid: the expression is too long or too large, or needs backtracking (backreferences, look-around). The error
            names `field`.
    """
    if len(text) > LONGEST:
        raise Invalid(f"The {field} filter is longer than {LONGEST} characters.", field=field)
    try:
        return _compiled(text, is_case_sensitive=False)
    except (re2.error, UnicodeEncodeError):
        message = (
            f"The {field} filter is not a regular expression that can be searched for: it is malformed or too large, "
            "or it refers back or looks around."
        )
        raise Invalid(message, field=field) from None


def glob(text: str, wildcards: Mapping[str, str] = ANY_TEXT) -> Pattern:
    """Compile a text with wildcards. The first wildcard that matches at a place becomes its expression.

    Other text is literal.
    """
    return _glob(text, tuple(wildcards.items()))


def shape(pieces: Iterable[str]) -> Pattern:
    """Combine expressions of the product itself into a pattern for texts of callers. A dot matches every character."""
    return _compiled("(?s)" + "".join(pieces), is_case_sensitive=True)


@lru_cache(maxsize=1024)
def _glob(text: str, wildcards: tuple[tuple[str, str], ...]) -> Pattern:
    pieces, literal, position = [], "", 0
    while position < len(text):
        end, meaning = _wildcard_at(text, position, wildcards)
        if end == position:
            literal += text[position]
            position += 1
            continue
        pieces += [re2.escape(_encodable(literal)), meaning]
        literal, position = "", end
    return _compiled("(?s)" + "".join([*pieces, re2.escape(_encodable(literal))]), is_case_sensitive=True)


def _wildcard_at(text: str, position: int, wildcards: tuple[tuple[str, str], ...]) -> tuple[int, str]:
    """Return the end of the wildcard that begins here, and its expression. `{}` stands for any name in braces."""
    for wildcard, meaning in wildcards:
        if text.startswith(wildcard, position):
            return position + len(wildcard), meaning
        end = text.find("}", position) if wildcard == "{}" and text[position] == "{" else -1
        if end > 0 and not set("/{") & set(text[position + 1 : end]):
            return end + 1, meaning
    return position, ""


@lru_cache(maxsize=1024)
def _compiled(text: str, *, is_case_sensitive: bool) -> Pattern:
    options = re2.Options()
    options.case_sensitive = is_case_sensitive
    options.max_mem = MOST_MEMORY
    options.log_errors = False
    return Pattern(text, re2.compile(text, options=options))


def _encodable(text: str) -> str:
    """Return the text with lone surrogates replaced: RE2 reads UTF-8, which cannot encode them."""
    return text.encode("utf-8", "replace").decode()
