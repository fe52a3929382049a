"""The default: who shares a machine or a database server notices at once that another has died."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from django.db import connections

from conductor.core.membership import Member, Membership, OnGone, Place
from conductor.membership.files import FileWatch
from conductor.membership.sessions import SessionWatch


class DatabaseMembership(Membership):
    """Locked files in the data folder, and a session on each PostgreSQL server; no service besides."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._watches: list[FileWatch | SessionWatch] = [
            FileWatch(place.data_dir),
            *(SessionWatch(alias) for alias in _servers()),
        ]

    def join(self, me: Member, on_gone: OnGone) -> None:
        for watch in self._watches:
            watch.join(me, on_gone)

    def leave(self) -> None:
        for watch in self._watches:
            watch.leave()

    def members(self) -> Sequence[Member]:
        found: dict[str, Member] = {}
        for watch in reversed(self._watches):  # a file knows the whole of a name
            found |= {member.life: member for member in watch.members()}
        return sorted(found.values(), key=lambda member: (member.name, member.worker))


def _servers() -> list[str]:
    """One alias for each PostgreSQL server: its sessions see the locks of all of its databases."""
    first: dict[tuple[str, str], str] = {}
    for alias, described in settings.DATABASES.items():
        if connections[alias].vendor == "postgresql":
            first.setdefault((described["HOST"], described["PORT"]), alias)
    return list(first.values())
