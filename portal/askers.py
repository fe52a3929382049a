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


def users_of(kept: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The user rows of many sessions by key, each person proven once; keys of whoever is not signed in are left out."""
    proven: dict[tuple[Any, ...], Any] = {}
    for values in kept.values():
        proof = tuple(values.get(name) for name in PROOF)
        if proof not in proven:
            found = get_user(cast(HttpRequest, SimpleNamespace(session=_Kept(values))))
            proven[proof] = None if isinstance(found, AnonymousUser) else found
    users = {key: proven[tuple(values.get(name) for name in PROOF)] for key, values in kept.items()}
    return {key: user for key, user in users.items() if user is not None and not sessions.is_over(_Kept(kept[key]))}


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
