"""Who looks at live pages, and what makes two of them see the same: rights, language, time zone and columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from zoneinfo import ZoneInfo

from django.utils import timezone, translation

from conductor.core.context import RequestContext
from conductor.services import preferences, sign_in
from conductor.services.preferences import Preferences
from portal import sessions
from portal.askers import PROJECT_KEY, Proof, proof_of, proven
from portal.request_ids import new_request_id

ALL_PROJECTS = "all"
MOST_REMEMBERED = 4096


class SignedOut(Exception):
    """The session has ended, or is about another project now."""


@dataclass(frozen=True)
class Ticket:
    """What a browser shows to be told: its session, the project that its pages are about, what language it asks for."""

    session_key: str
    project_id: str
    language: str
    user_id: str = ""  # to whose share it counts; rights are read anew from the session


@dataclass(frozen=True)
class Viewer:
    """All that a live piece of a page may depend on; two equal viewers are shown the same bytes.

    The asker is nobody in particular: a piece that depended on the person could not be shared, and is empty instead.
    """

    asker: RequestContext
    language: str
    time_zone: str
    columns: tuple[str, ...]

    @property
    def scope(self) -> str:
        """Whose events concern them."""
        return ALL_PROJECTS if self.asker.is_admin else self.asker.project_id

    def request(self) -> RequestContext:
        """The asker of one reading."""
        return replace(self.asker, request_id=new_request_id())

    @contextmanager
    def words(self) -> Iterator[None]:
        """What is drawn inside is in their language and time zone."""
        with translation.override(self.language), timezone.override(ZoneInfo(self.time_zone)):
            yield


def read(ticket: Ticket) -> Viewer:
    """With the rights of this moment. Raises SignedOut."""
    viewer = read_all([ticket])[ticket]
    if viewer is None:
        raise SignedOut
    return viewer


def admit(session_key: str, language: str) -> Ticket:
    """What stands for a browser with this session from now on. Raises SignedOut."""
    if not session_key:
        raise SignedOut
    viewer = read(Ticket(session_key, "", language))
    kept = sign_in.sessions({session_key}).get(session_key)
    if kept is None:
        raise SignedOut
    user_id = _user_id(sign_in.rights_number(), proof_of(kept))
    return Ticket(session_key, viewer.asker.project_id, language, user_id)


def read_all(tickets: Collection[Ticket]) -> dict[Ticket, Viewer | None]:
    """The same for many; None for whom SignedOut would be raised. Three queries, and some after rights have changed."""
    number = sign_in.rights_number()  # before what it covers is read
    kept = sign_in.sessions({ticket.session_key for ticket in tickets})
    users = {key: _user_id(number, proof_of(values)) for key, values in kept.items() if not sessions.is_over(values)}
    wishes = preferences.of_many(set(users.values()) - {""})
    seen: dict[tuple[str, str, str], Viewer | None] = {}
    found: dict[Ticket, Viewer | None] = {}
    for ticket in tickets:
        user_id, project_id = users.get(ticket.session_key, ""), kept.get(ticket.session_key, {}).get(PROJECT_KEY, "")
        if user_id not in wishes or not project_id or (ticket.project_id and project_id != ticket.project_id):
            found[ticket] = None
            continue
        who = user_id, project_id, ticket.language
        if who not in seen:
            asker = _asker(number, user_id, project_id)
            seen[who] = _viewer(asker, wishes[user_id], ticket.language) if asker is not None else None
        found[ticket] = seen[who]
    return found


# What follows is remembered beside the number that rights had when it was read: see `sign_in.rights_number`.
@lru_cache(maxsize=MOST_REMEMBERED)
def _user_id(_number: int, proof: Proof) -> str:
    return proven(proof)


@lru_cache(maxsize=MOST_REMEMBERED)
def _asker(_number: int, user_id: str, project_id: str) -> RequestContext | None:
    """Nobody in particular, with the rights of the person there; None when there are none."""
    asker = sign_in.context_for(user_id, project_id, "")
    return replace(asker, user_id="", user_name="") if asker is not None else None


def _viewer(asker: RequestContext, wishes: Preferences, language: str) -> Viewer:
    return Viewer(
        asker=asker,
        language=wishes.language or language,
        time_zone=wishes.time_zone,
        columns=wishes.server_columns,
    )
