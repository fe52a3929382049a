"""Who else lives: this process among the others, and what is done when one of them has died."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from django.conf import settings
from django.db import connections

from conductor.core.membership import Member, Membership, Place
from conductor.membership.database import DatabaseMembership
from conductor.workflows import leases, recovery

log = logging.getLogger(__name__)


def memberships() -> list[Membership]:
    """The kinds in use here, not yet joined."""
    place = Place(url="", data_dir=settings.NOVELLA_DATA)
    return [DatabaseMembership(place)]


class Group:
    """A conductor's part in its group: it is seen by the others, and takes over from those who die."""

    def __init__(self, aliases: Iterable[str], name: str) -> None:
        self._me = Member(worker=leases.WORKER, name=name)
        self._on_gone = partial(take_over, tuple(aliases))
        self._memberships = memberships()

    def join(self) -> None:
        for membership in self._memberships:
            membership.join(self._me, self._on_gone)

    def leave(self) -> None:
        for membership in self._memberships:
            membership.leave()


def take_over(aliases: Iterable[str], life: str) -> None:
    """End what a dead process owned in these journals; what fails waits for its leases. Never raises."""
    for alias in aliases:
        try:
            freed = recovery.take_over_from(alias, life)
        except Exception:
            log.exception("leases of a dead process run out by themselves: alias=%s life=%s", alias, life)
        else:
            if freed:
                log.warning("a process died, its runs go on: alias=%s life=%s runs=%s", alias, life, freed)
    connections.close_all()  # this thread is the membership's: it may end now, or wait for long
