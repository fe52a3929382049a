"""Who looks at live pages, and what makes two of them see the same: rights, language, time zone and columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone, translation

from conductor.core.context import RequestContext
from conductor.services import preferences, sign_in
from portal.askers import PROJECT_KEY, users_of
from portal.request_ids import new_request_id

ALL_PROJECTS = "all"


class SignedOut(Exception):
    """The session has ended, or is about another project now."""


@dataclass(frozen=True)
class Ticket:
    """What a browser shows to be told: its session, the project that its pages are about, what language it asks for."""

    session_key: str
    project_id: str
    language: str


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


def read_all(tickets: Collection[Ticket]) -> dict[Ticket, Viewer | None]:
    """The same for many; None for whom SignedOut would be raised. Two queries, and some for each person and project."""
    kept = sign_in.sessions({ticket.session_key for ticket in tickets})
    users = users_of(kept)
    askers: dict[tuple[str, str], RequestContext | None] = {}
    found: dict[Ticket, Viewer | None] = dict.fromkeys(tickets)
    for ticket in tickets:
        user, project_id = users.get(ticket.session_key), kept.get(ticket.session_key, {}).get(PROJECT_KEY)
        if user is None or not project_id or (ticket.project_id and project_id != ticket.project_id):
            continue
        if (user.pk, project_id) not in askers:
            askers[user.pk, project_id] = sign_in.context_for(user.pk, project_id, "")
        asker = askers[user.pk, project_id]
        if asker is not None:
            found[ticket] = _viewer(asker, user, ticket)
    return found


def _viewer(asker: RequestContext, user: Any, ticket: Ticket) -> Viewer:
    wishes = preferences.read(user.preferences)
    return Viewer(
        asker=replace(asker, user_id="", user_name=""),
        language=wishes.language or ticket.language,
        time_zone=wishes.time_zone,
        columns=wishes.server_columns,
    )
