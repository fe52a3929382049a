"""Who else lives: this process among the others, and what is done when one of them has died."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from django.conf import settings
from django.db import connections

from conductor import plugins
from conductor.cells.lookup import API_ALIAS
from conductor.core.errors import Invalid
from conductor.core.membership import Member, Membership, Place
from conductor.membership.database import DatabaseMembership
from conductor.workflows import leases, recovery

log = logging.getLogger(__name__)


def memberships() -> list[Membership]:
    """The kinds in use here, not yet joined: the default, and the one that the operator chose besides.

    Raises Invalid when no plugin brings that one.
    """
    url = settings.NOVELLA_MEMBERSHIP_URL
    place = Place(url=url, data_dir=settings.NOVELLA_DATA)
    scheme = url.partition("://")[0]
    if not scheme:
        return [DatabaseMembership(place)]
    known = plugins.registry().memberships
    if scheme not in known:
        raise Invalid(
            f"NOVELLA_MEMBERSHIP_URL: no plugin brings {scheme}://. Known: {', '.join(sorted(known)) or 'none'}."
        )
    return [DatabaseMembership(place), known[scheme](place)]


def living() -> list[Member]:
    """Who lives by any of the kinds, by name. Raises Unavailable when one of them cannot be asked."""
    found = {member.life: member for membership in memberships() for member in membership.members()}
    return sorted(found.values(), key=lambda member: (member.name, member.worker))


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
    """End what a dead process owned in these journals; what fails waits for its leases. Never raises.

    Leases of periodic work for the whole cloud are in the API database, whichever journals this process looks after.
    """
    for alias in dict.fromkeys((*aliases, API_ALIAS)):
        try:
            freed = recovery.take_over_from(alias, life)
        except Exception:
            log.exception("leases of a dead process run out by themselves: alias=%s life=%s", alias, life)
        else:
            if freed:
                log.warning("a process died, its runs go on: alias=%s life=%s runs=%s", alias, life, freed)
    connections.close_all()  # this thread is the membership's: it may end now, or wait for long
