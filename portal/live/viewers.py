"""Viewers of live pages: equal rights, language, time zone and columns make equal pages."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from zoneinfo import ZoneInfo

from django.utils import timezone, translation

from conductor.core.context import RequestContext
from conductor.core.identifiers import new_request_id
from conductor.services.accounts import preferences, sign_in
from conductor.services.accounts.preferences import Preferences
from portal import sessions
from portal.session_callers import PROJECT_KEY, VerifiedClaims, proof_of, proven

ALL_PROJECTS = "all"
MOST_REMEMBERED = 4096


class SignedOut(Exception):
    """The session has ended, or has another project now."""


@dataclass(frozen=True)
class Ticket:
    """A browser's subscription data: its session, the project of its pages, and its language."""

    session_key: str
    project_id: str
    language: str
    user_id: str = ""  # for counting its connections; rights are read anew from the session


@dataclass(frozen=True)
class Viewer:
    """Everything that a live fragment may depend on; two equal viewers get the same bytes.

    The caller has no user: a fragment that depends on the user could not be shared, and is empty instead.
    """

    caller: RequestContext
    language: str
    time_zone: str
    columns: tuple[str, ...]

    @property
    def scope(self) -> str:
        """The project whose events the viewer gets, or ALL_PROJECTS."""
        return ALL_PROJECTS if self.caller.is_admin else self.caller.project_id

    def request(self) -> RequestContext:
        """Return the caller for one read."""
        return replace(self.caller, request_id=new_request_id())

    @contextmanager
    def words(self) -> Iterator[None]:
        """Activate the viewer's language and time zone."""
        with translation.override(self.language), timezone.override(ZoneInfo(self.time_zone)):
            yield


def read(ticket: Ticket) -> Viewer:
    """Return the viewer of a ticket with current rights. Raises SignedOut."""
    viewer = read_all([ticket])[ticket]
    if viewer is None:
        raise SignedOut
    return viewer


def admit(session_key: str, language: str) -> Ticket:
    """Return the ticket of a session. Raises SignedOut."""
    if not session_key:
        raise SignedOut
    viewer = read(Ticket(session_key, "", language))
    kept = sign_in.sessions({session_key}).get(session_key)
    if kept is None:
        raise SignedOut
    user_id = _user_id(sign_in.rights_number(), proof_of(kept))
    return Ticket(session_key, viewer.caller.project_id, language, user_id)


def read_all(tickets: Collection[Ticket]) -> dict[Ticket, Viewer | None]:
    """Return the viewers of many tickets; None where SignedOut would be raised.

    Three queries, and more after rights have changed.
    """
    number = sign_in.rights_number()  # read before the rights that it covers
    kept = sign_in.sessions({ticket.session_key for ticket in tickets})
    users = {key: _user_id(number, proof_of(values)) for key, values in kept.items() if not sessions.is_over(values)}
    user_preferences = preferences.of_many(set(users.values()) - {""})
    seen: dict[tuple[str, str, str], Viewer | None] = {}
    found: dict[Ticket, Viewer | None] = {}
    for ticket in tickets:
        user_id, project_id = users.get(ticket.session_key, ""), kept.get(ticket.session_key, {}).get(PROJECT_KEY, "")
        if user_id not in user_preferences or not project_id or (ticket.project_id and project_id != ticket.project_id):
            found[ticket] = None
            continue
        who = user_id, project_id, ticket.language
        if who not in seen:
            caller = _caller(number, user_id, project_id)
            seen[who] = _viewer(caller, user_preferences[user_id], ticket.language) if caller is not None else None
        found[ticket] = seen[who]
    return found


# Cached by the version number of the rights: see `sign_in.rights_number`.
@lru_cache(maxsize=MOST_REMEMBERED)
def _user_id(_number: int, proof: VerifiedClaims) -> str:
    return proven(proof)


@lru_cache(maxsize=MOST_REMEMBERED)
def _caller(_number: int, user_id: str, project_id: str) -> RequestContext | None:
    """Return a caller with the user's rights but without the user; None if there are no rights."""
    caller = sign_in.context_for(user_id, project_id, "")
    return replace(caller, user_id="", user_name="") if caller is not None else None


def _viewer(caller: RequestContext, user_preferences: Preferences, language: str) -> Viewer:
    return Viewer(
        caller=caller,
        language=user_preferences.language or language,
        time_zone=user_preferences.time_zone,
        columns=user_preferences.server_columns,
    )
