"""Helpers for tests of pages: a signed-in client without a browser, and the text of a response."""

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
