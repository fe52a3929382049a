"""The default membership: processes of one machine or database server notice each other's death at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connections

from conductor.core.membership import Member, Membership, MembershipLocation, OnGone
from conductor.membership.files import FileWatch

if TYPE_CHECKING:
    from conductor.membership.sessions import SessionWatch


class DatabaseMembership(Membership):
    """Membership by locked files in the data folder, and by a session on each PostgreSQL server. It needs no other
    service.
    """

    def __init__(self, place: MembershipLocation) -> None:
        super().__init__(place)
        self._watches: list[FileWatch | SessionWatch] = [FileWatch(place.data_dir), *map(_session_watch, _servers())]

    def join(self, me: Member, on_gone: OnGone) -> None:
        for watch in self._watches:
            watch.join(me, on_gone)

    def leave(self) -> None:
        for watch in self._watches:
            watch.leave()

    def members(self) -> Sequence[Member]:
        found: dict[str, Member] = {}
        for watch in reversed(self._watches):  # a file has the whole name
            found |= {member.life: member for member in watch.members()}
        return sorted(found.values(), key=lambda member: (member.name, member.worker))


def _session_watch(alias: str) -> SessionWatch:
    from conductor.membership.sessions import SessionWatch  # needs a PostgreSQL client

    return SessionWatch(alias)


def _servers() -> list[str]:
    """Return one alias for each PostgreSQL server, whose sessions see the locks of all of its databases."""
    first: dict[tuple[str, str], str] = {}
    for alias, described in settings.DATABASES.items():
        if connections[alias].vendor == "postgresql":
            first.setdefault((described["HOST"], described["PORT"]), alias)
    return list(first.values())
