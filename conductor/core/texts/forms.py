"""The forms of a text: one string, or two where a count decides."""

from __future__ import annotations

from typing import NamedTuple


class Plural(NamedTuple):
    """A text for a `count` of one, and one for any other."""

    one: str
    many: str


Text = str | Plural
