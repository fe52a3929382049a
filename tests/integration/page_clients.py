"""What tests of pages share: a browser's stand-in that has signed in, and the words of an answer."""

from __future__ import annotations

import html
from typing import Any

from django.test import Client

from tests.people import PASSWORD


def signed_in(name: str, **extra: Any) -> Client:
    client = Client(**extra)
    assert client.post("/sign-in", {"username": name, "password": PASSWORD}).status_code == 302
    return client


def text(answer: Any) -> str:
    """Without entities, and without the spaces of the layout."""
    return html.unescape(" ".join(answer.content.decode().split()))
