"""Sentences that reach pages in English, said in the language of the page.

Advice of the scheduler, errors of steps, lines of logs and refusals of the APIs are kept or sent as English text,
because programs read them too. What pages show of them is recognised by its shape and said anew; what fits no shape,
such as the words of a hypervisor, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from django.utils.translation import gettext

from conductor.core import patterns
from conductor.core.patterns import Pattern
from portal.pages.amounts import whole
from portal.pages.plugin_words import words
from portal.pages.told_shapes import SENTENCES, SHAPE_PARTS

PLACE = re.compile(r"%\((\w+)\)s")
VALUES = {
    **dict.fromkeys(("count", "total", "limit", "other"), r"[0-9][0-9.,]*"),
    "amount": r"[0-9][0-9.,]*(?: \S+)?",
}
BETWEEN_SENTENCES = re.compile(r"(?<=[.!?]) (?=[A-Z0-9“])")
LONG_NUMBER = re.compile(r"(?<![\w.,#-])\d{5,}(?= (?:MB|GB|vCPUs?|free)\b)")
A_FILTER = re.compile(r"(?<=nothing but what )\w+(?= asks for)|(?<=turned away by )\w+")  # by what people call it
MOST_KEPT = 4096
LONGEST = 2000


def told(text: str, language: str) -> str:
    """The text in that language, which must be the one in use: shapes are filled from its catalogue."""
    if not text or len(text) > LONGEST:
        return text
    return _told(A_FILTER.sub(lambda found: f"“{words(found[0])}”", str(text)), language)


@lru_cache(MOST_KEPT)
def _told(text: str, language: str, *, is_part: bool = False) -> str:
    plain = gettext(text)
    if plain != text or language.startswith("en"):
        return _with_readable_numbers(plain)
    if is_part and text.isdigit() and len(text) > 4:
        return whole(int(text))
    shaped = _by_shape(text, language, (*SENTENCES, *SHAPE_PARTS) if is_part else SENTENCES)
    if shaped is not None:
        return shaped
    sentences = BETWEEN_SENTENCES.split(text)
    if len(sentences) > 1:
        return " ".join(_told(one, language) for one in sentences)
    return _with_readable_numbers(text)


def _by_shape(text: str, language: str, shapes: tuple[str, ...]) -> str | None:
    for shape, pattern in _patterns(shapes):
        found = pattern.groups_of(text)
        if found is not None:
            values = {name: _told(value, language, is_part=True) for name, value in found.items()}
            return gettext(shape) % values
    return None


@lru_cache(2)
def _patterns(shapes: tuple[str, ...]) -> list[tuple[str, Pattern]]:
    """Those that say most by themselves come first."""
    ordered = sorted((one for one in shapes if PLACE.search(one)), key=lambda one: -len(PLACE.sub("", one)))
    return [(shape, patterns.shape(_pieces(shape))) for shape in ordered]


def _pieces(shape: str) -> Iterable[str]:
    """What is between the places is literal; a number is not taken for a word, nor a word for a number."""
    begin = 0
    for place in PLACE.finditer(shape):
        yield re.escape(shape[begin : place.start()])
        yield f"(?P<{place[1]}>{VALUES.get(place[1], '.+?')})"
        begin = place.end()
    yield re.escape(shape[begin:])


def _with_readable_numbers(text: str) -> str:
    """400000 MB is counted by the eye, 400,000 MB is read."""
    return LONG_NUMBER.sub(lambda found: whole(int(found[0])), text)
