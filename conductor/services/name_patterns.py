"""Searching names by a regular expression of the caller's: plain texts in SQL, all else by `core.patterns`."""

from __future__ import annotations

import string
import time
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Model, Q, QuerySet

from conductor.core import patterns
from conductor.core.errors import Unavailable
from conductor.core.patterns import Pattern

MATCH_SECONDS = 2.0  # for the names of one database
NAMES_AT_ONCE = 1000
SPECIAL = frozenset(r".^$*+?{}[]|()")
LOOKUPS = {
    (False, False): "icontains",
    (True, False): "istartswith",
    (False, True): "iendswith",
    (True, True): "iexact",
}
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True)
class NamePattern:
    """A pattern that is found somewhere in a name; `lookup` and `text` say the same in SQL where SQL can say it."""

    pattern: Pattern
    lookup: str = ""
    text: str = ""

    @property
    def in_sql(self) -> Q:
        """A condition that all names meet in which the pattern is found, and only they where `is_plain`."""
        return Q(**{f"name__{self.lookup}": self.text}) if self.text else Q()

    @property
    def is_plain(self) -> bool:
        """Whether the condition in SQL is enough."""
        return bool(self.lookup)

    def is_found_in(self, name: str) -> bool:
        return self.pattern.is_found_in(name)


def parse(text: str) -> NamePattern:
    """Raises Invalid for what is no regular expression, or none that can be searched for in linear time."""
    pattern = patterns.expression(text, field="name")
    body, is_start = _without_start(text)
    body, is_end = _without_end(body)
    plain = _plain(body)
    if plain is None or (not plain and (is_start or is_end)):
        return NamePattern(pattern)
    return NamePattern(pattern, LOOKUPS[is_start, is_end], plain)


def narrow(rows: QuerySet[Row], pattern: NamePattern, limit: int) -> QuerySet[Row]:
    """The first `limit` of ordered rows in whose name the pattern is found. Raises Unavailable when it takes too long.

    A database's own regular expressions never see the pattern: their time has no bound.
    """
    if pattern.is_plain:
        return rows
    found: list[object] = []
    until = time.monotonic() + MATCH_SECONDS
    for number, (key, name) in enumerate(rows.values_list("pk", "name").iterator(chunk_size=NAMES_AT_ONCE)):
        if pattern.is_found_in(name):
            found.append(key)
            if len(found) == limit:
                break
        if number % 100 == 0 and time.monotonic() > until:
            raise Unavailable(
                f"The name filter was not done after {MATCH_SECONDS:g} seconds: use a plain text, or further filters."
            )
    return rows.filter(pk__in=found)


def _without_start(text: str) -> tuple[str, bool]:
    """The pattern behind what it needs at its start, and whether it is bound to the start of the name."""
    is_bound = text.startswith("^")
    body = text.removeprefix("^")
    while body.startswith(".*"):
        body, is_bound = body[2:], False
    return body, is_bound


def _without_end(text: str) -> tuple[str, bool]:
    is_bound = _ends(text, "$")
    body = text[:-1] if is_bound else text
    while _ends(body, ".*"):
        body, is_bound = body[:-2], False
    return body, is_bound


def _ends(text: str, end: str) -> bool:
    """Whether it ends so, and this is not escaped."""
    before = text.removesuffix(end)
    return before != text and (len(before) - len(before.rstrip("\\"))) % 2 == 0


def _plain(text: str) -> str | None:
    """The text that a pattern without special characters stands for; None for any other pattern."""
    plain, is_escaped = "", False
    for character in text:
        if not is_escaped and character == "\\":
            is_escaped = True
            continue
        is_literal = character in string.punctuation or character == " " if is_escaped else character not in SPECIAL
        if not is_literal or not " " <= character <= "~":
            return None
        plain, is_escaped = plain + character, False
    return None if is_escaped else plain
