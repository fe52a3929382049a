"""The caller of a browser's session, for pages, for our own API and for live sockets."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from types import SimpleNamespace
from typing import Any, cast

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils import timezone, translation

from conductor.core.context import RequestContext
from conductor.services.accounts import preferences, sign_in
from portal import sessions

PROJECT_KEY = "project_id"
PROOF = (SESSION_KEY, BACKEND_SESSION_KEY, HASH_SESSION_KEY)

Session = MutableMapping[str, Any]
VerifiedClaims = tuple[Any, ...]


def user_of(session: Session) -> Any:
    """Return the user row of a session; None for an anonymous or expired session, or after a change of the password."""
    if sessions.is_over(session):
        return None
    found = get_user(cast(HttpRequest, SimpleNamespace(session=session)))
    return None if isinstance(found, AnonymousUser) else found


class _Kept(dict[str, Any]):
    """A read-only copy of a session: Django's checks on it change nothing."""

    def flush(self) -> None:
        self.clear()

    def cycle_key(self) -> None:
        """Keep the key."""


def keep_signed_in(session: Any, user: Any) -> None:
    """Have this session go on after a change that ends all sessions of its user; it gets another key."""
    session.cycle_key()
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()


def proof_of(session: Mapping[str, Any]) -> VerifiedClaims:
    """Return the values of a session that prove its user."""
    return tuple(session.get(name) for name in PROOF)


def proven(proof: VerifiedClaims) -> str:
    """Return the id of the user that the proof is valid for now; "" if it is not valid any more."""
    kept = _Kept({name: value for name, value in zip(PROOF, proof, strict=True) if value is not None})
    found = get_user(cast(HttpRequest, SimpleNamespace(session=kept)))
    return "" if isinstance(found, AnonymousUser) else str(found.pk)


def caller_of(session: Session, request_id: str, *, language: str = "") -> RequestContext | None:
    """Return user and project of a session; None without one, or without rights to the project.

    Also activates the user's time zone and, if `language` is given as the default, the user's language.
    """
    user = user_of(session)
    user_preferences = preferences.read(user.preferences if user is not None else None)
    timezone.activate(user_preferences.zone)
    if language:
        translation.activate(user_preferences.language or language)
    project_id = session.get(PROJECT_KEY)
    if user is None or not project_id:
        return None
    return sign_in.context_for(user.pk, project_id, request_id)
