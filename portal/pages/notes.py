"""Notes that an action leaves for the next page."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest

from portal.pages.wording import translated


def leave_note(request: HttpRequest, text: str, tone: str) -> None:
    """Show a note at the top of the next page, translated now if it is a message or a phrase.

    `tone` is "good", "bad" or "waiting".
    """
    messages.add_message(request, messages.INFO, translated(text), extra_tags=tone)
