"""Translation of messages: those of the program are translated, text from elsewhere stays as it is."""

from __future__ import annotations

from django.utils.translation import get_language, gettext, ngettext

from conductor.core.messages import Message, Wording, render
from conductor.core.phrases import Phrase
from portal.pages.amounts import decimal, whole
from portal.pages.plugin_names import words


def translated(text: str) -> str:
    """Translate a message or phrase to the active language; any other text stays as it is."""
    if isinstance(text, Phrase):
        return text.render(_text, ngettext, decimal)
    return render(text, PAGES) if isinstance(text, Message) else text


def _text(text: str) -> str:
    return gettext(text) if text else text


def action_on(action: str, subject: str) -> str:
    """Return an action and what it is about: Create web-1; without a subject the action alone."""
    if not subject:
        return _text(action)
    return gettext("%(action)s %(subject)s") % {"action": _text(action), "subject": subject}


def inside(text: object) -> str:
    """Return a title for the middle of a sentence: lower case in English; German capitalizes nouns everywhere."""
    return str(text).lower() if (get_language() or "en").startswith("en") else str(text)


def _number(value: float) -> str:
    return whole(value) if isinstance(value, int) else decimal(value)


def _plugin(name: str) -> str:
    return gettext("“%(name)s”") % {"name": words(name)}


PAGES = Wording(text=gettext, plural=ngettext, number=_number, plugin=_plugin)
