"""Permission checks for the tokens of event streams, many at once, as the pages themselves are shared."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from io import BytesIO
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError

from conductor.core.errors import NovellaError
from portal.api.authentication import HEADER, TokenAuthentication
from portal.api.authorization import is_allowed
from portal.api.novella.policies import RULES
from portal.live.viewers import ALL_PROJECTS

Scope = MutableMapping[str, Any]
RULE = RULES["novella:events:list"]  # the rule of a workflow's events is the same
_TOKEN = HEADER.lower().encode()


def token_of(scope: Scope) -> bytes:
    """Return the token of a request; empty if it has a session instead."""
    found: bytes = dict(scope["headers"]).get(_TOKEN, b"")
    return found


def permitted(scopes: Mapping[bytes, Scope], channel: str) -> frozenset[bytes]:
    """Return the tokens of requests that may still read `channel` (a project's id, or ALL_PROJECTS).

    A request without a token is always in the result: it is sent by itself, and checks its session then.
    """
    return frozenset(token for token, scope in scopes.items() if not token or _channel_of(scope) == channel)


def _channel_of(scope: Scope) -> str:
    """Return the channel that a token may read; empty for an invalid token, or without permission."""
    try:
        found = TokenAuthentication().authenticate(ASGIRequest(dict(scope), BytesIO()))
    except (NovellaError, DatabaseError):
        return ""  # the page that is requested with this token alone has the reason
    if found is None or not is_allowed(RULE, found[1]):
        return ""
    return ALL_PROJECTS if found[1].is_admin else found[1].project_id
