"""Filters for words that pages are described with as data: written in English, translated where they are drawn."""

from __future__ import annotations

from django import template
from django.utils.translation import get_language, gettext, ngettext

from conductor.core.phrases import Phrase
from portal.pages import told as sentences

register = template.Library()


@register.filter
def say(text: object) -> object:
    """The translation of a text; whatever is no text, or has none, stays as it is."""
    if isinstance(text, Phrase):
        return text.said(_one, ngettext)
    return _one(text) if isinstance(text, str) else text


def _one(text: str) -> str:
    return gettext(text) if text else text


@register.filter
def told(text: object) -> object:
    """As `say`, for what was kept or refused in English: a sentence is known by its shape."""
    if isinstance(text, Phrase) or not isinstance(text, str):
        return say(text)
    return sentences.told(text, get_language() or "en")


@register.filter
def inside(text: object) -> str:
    """A title within a sentence: English writes it small, German writes nouns large everywhere."""
    return str(text).lower() if (get_language() or "en").startswith("en") else str(text)


@register.filter
def counted(noun: str, count: int) -> str:
    """1 volume, 2 volumes: the noun alone, as the number asks for it."""
    return ngettext(noun, f"{noun}s", count)
