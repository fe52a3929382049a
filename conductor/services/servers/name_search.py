"""Name searches with the caller's regular expression: plain texts in SQL, all others with `core.patterns`."""

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
    """A pattern to find anywhere in a name. `lookup` and `text` express it in SQL where that is possible."""

    pattern: Pattern
    lookup: str = ""
    text: str = ""

    @property
    def in_sql(self) -> Q:
        """A condition that is true for all names with a match, and only for them where `is_plain`."""
        return Q(**{f"name__{self.lookup}": self.text}) if self.text else Q()

    @property
    def is_plain(self) -> bool:
        """Whether the condition in SQL is sufficient."""
        return bool(self.lookup)

    def is_found_in(self, name: str) -> bool:
        return self.pattern.is_found_in(name)


def parse(text: str) -> NamePattern:
    """Parse a pattern.

    Raises Invalid for an invalid regular expression, or one that cannot be matched in linear time.
    """
    pattern = patterns.expression(text, field="name")
    body, is_start = _without_start(text)
    body, is_end = _without_end(body)
    plain = _plain(body)
    if plain is None or (not plain and (is_start or is_end)):
        return NamePattern(pattern)
    return NamePattern(pattern, LOOKUPS[is_start, is_end], plain)


def narrow(rows: QuerySet[Row], pattern: NamePattern, limit: int) -> QuerySet[Row]:
    """Return the first `limit` of ordered rows whose name matches. Raises Unavailable when it takes too long.

    The pattern is never passed to a database's own regular expressions, as their time has no bound.
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
    """Return the pattern without anchors and wildcards at its start, and whether it is anchored there."""
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
    """Whether the text ends with `end`, not escaped."""
    before = text.removesuffix(end)
    return before != text and (len(before) - len(before.rstrip("\\"))) % 2 == 0


def _plain(text: str) -> str | None:
    """Return the text of a pattern without special characters; None for any other pattern."""
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
