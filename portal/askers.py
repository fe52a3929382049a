"""Who asks, from a browser's session: for pages, for our own API and for live sockets."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from types import SimpleNamespace
from typing import Any, cast

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils import timezone, translation

from conductor.core.context import RequestContext
from conductor.services import preferences, sign_in
from portal import sessions

PROJECT_KEY = "project_id"
PROOF = (SESSION_KEY, BACKEND_SESSION_KEY, HASH_SESSION_KEY)

Session = MutableMapping[str, Any]
Proof = tuple[Any, ...]


def user_of(session: Session) -> Any:
    """The user row of a session; None when nobody has signed in, its time is up, or the password has changed."""
    if sessions.is_over(session):
        return None
    found = get_user(cast(HttpRequest, SimpleNamespace(session=session)))
    return None if isinstance(found, AnonymousUser) else found


class _Kept(dict[str, Any]):
    """A session to look into: whoever finds something wrong with it changes nothing."""

    def flush(self) -> None:
        self.clear()

    def cycle_key(self) -> None:
        """It keeps its key."""


def proof_of(session: Mapping[str, Any]) -> Proof:
    """What of a session says who has signed in."""
    return tuple(session.get(name) for name in PROOF)


def proven(proof: Proof) -> str:
    """The id of the user whom it proves now; "" when it proves nobody any more."""
    kept = _Kept({name: value for name, value in zip(PROOF, proof, strict=True) if value is not None})
    found = get_user(cast(HttpRequest, SimpleNamespace(session=kept)))
    return "" if isinstance(found, AnonymousUser) else str(found.pk)


def asker_of(session: Session, request_id: str, *, language: str = "") -> RequestContext | None:
    """The person and the project of a session; None when there is none, or the right to it is gone.

    What is drawn next is in the person's time zone and, where `language` says what else it would be in, language.
    """
    user = user_of(session)
    wishes = preferences.read(user.preferences if user is not None else None)
    timezone.activate(wishes.zone)
    if language:
        translation.activate(wishes.language or language)
    project_id = session.get(PROJECT_KEY)
    if user is None or not project_id:
        return None
    return sign_in.context_for(user.pk, project_id, request_id)
