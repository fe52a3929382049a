"""Filters for words that pages define as data: written in English, translated when they are rendered."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext, ngettext

from conductor.core.messages import Message
from conductor.core.phrases import Phrase
from portal.pages.wording import action_on, inside, translated

register = template.Library()
register.filter(inside)
register.filter(action_on)


@register.filter
def say(text: object) -> object:
    """Translate a message or a text; other values, and texts without a translation, stay as they are."""
    if isinstance(text, Message | Phrase):
        return translated(text)
    return gettext(text) if isinstance(text, str) and text else text


@register.filter
def counted(noun: str, count: int) -> str:
    """Return 1 volume, 2 volumes: the noun in singular or plural."""
    return ngettext(noun, f"{noun}s", count)
