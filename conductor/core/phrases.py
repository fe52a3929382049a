"""Translatable sentences of services: English text that remembers its parts.

A phrase is a string: code without translation (the API, a log, a comparison) has the English sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

One = Callable[[str], str]
Many = Callable[[str, str, int], str]
Number = Callable[[float], str]


class Phrase(str):
    """A sentence with `%(name)s` for its values; see `phrase` and `phrases`."""

    text: str = ""
    plural: str = ""
    number: int = 0
    values: Mapping[str, Any] = {}

    def render(self, one: One, many: Many, number: Number) -> str:
        """Return the sentence in another language. Values that are phrases or fractions are in that language too."""
        text = many(self.text, self.plural, self.number) if self.plural else one(self.text)
        return _filled(text, {name: _rendered(value, one, many, number) for name, value in self.values.items()})


def phrase(text: str, /, **values: Any) -> Phrase:
    """Build a phrase: `phrase("It waits for %(what)s.", what=…)`."""
    return _made(text, values)


def phrases(one: str, many: str, count: int, /, **values: Any) -> Phrase:
    """Build a phrase with a count: `phrases("%(count)s server", "%(count)s servers", 2)`."""
    values = {"count": count, **values}
    made = _made(one if count == 1 else many, values)
    made.text, made.plural, made.number = one, many, count
    return made


def _made(text: str, values: Mapping[str, Any]) -> Phrase:
    made = Phrase(_filled(text, values))
    made.text, made.values = text, values
    return made


def _filled(text: str, values: Mapping[str, Any]) -> str:
    return text % values if values else text


def _rendered(value: Any, one: One, many: Many, number: Number) -> Any:
    if isinstance(value, float):
        return number(value)
    return value.render(one, many, number) if isinstance(value, Phrase) else value
