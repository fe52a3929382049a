"""Who looks at live pages, and what makes two of them see the same: rights, language, time zone and columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from django.contrib.sessions.backends.db import SessionStore
from django.utils import timezone, translation

from conductor.core.context import RequestContext
from conductor.services import preferences, sign_in
from portal.askers import PROJECT_KEY, user_of
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
    session = SessionStore(ticket.session_key) if ticket.session_key else None
    user = user_of(session) if session is not None else None
    project_id = session.get(PROJECT_KEY) if session is not None else None
    if user is None or not project_id or (ticket.project_id and project_id != ticket.project_id):
        raise SignedOut
    asker = sign_in.context_for(user.pk, project_id, "")
    if asker is None:
        raise SignedOut
    wishes = preferences.read(user.preferences)
    return Viewer(
        asker=replace(asker, user_id="", user_name=""),
        language=wishes.language or ticket.language,
        time_zone=wishes.time_zone,
        columns=wishes.server_columns,
    )
