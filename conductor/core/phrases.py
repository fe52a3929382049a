"""Sentences that services say and pages translate: English text that remembers what it was put together from.

A phrase is a string, so whoever knows nothing of languages (the API, a log, a comparison) has the English sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

One = Callable[[str], str]
Many = Callable[[str, str, int], str]


class Phrase(str):
    """A sentence with `%(name)s` for what is put in; see `phrase` and `phrases`."""

    text: str = ""
    plural: str = ""
    number: int = 0
    values: Mapping[str, Any] = {}

    def said(self, one: One, many: Many) -> str:
        """The sentence in another language: what is put in is said in it too, where it is a phrase itself."""
        text = many(self.text, self.plural, self.number) if self.plural else one(self.text)
        return _filled(text, {name: _said(value, one, many) for name, value in self.values.items()})


def phrase(text: str, **values: Any) -> Phrase:
    """`phrase("It waits for %(what)s.", what=…)`."""
    return _made(text, values)


def phrases(one: str, many: str, count: int, **values: Any) -> Phrase:
    """The same with a number: `phrases("%(count)s server", "%(count)s servers", 2)`."""
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


def _said(value: Any, one: One, many: Many) -> Any:
    return value.said(one, many) if isinstance(value, Phrase) else value
