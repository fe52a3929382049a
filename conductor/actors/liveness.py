"""Group membership of processes, and takeover from those that have died."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from django.conf import settings
from django.db import connections

from conductor import plugins
from conductor.cells.lookup import API_ALIAS
from conductor.core.errors import Invalid
from conductor.core.membership import Member, Membership, MembershipLocation
from conductor.membership.database import DatabaseMembership
from conductor.workflows import scheduler_calls
from conductor.workflows.engine import leases, recovery

log = logging.getLogger(__name__)


def memberships() -> list[Membership]:
    """Return the memberships in use, not yet joined: the default, and the configured one.

    Raises Invalid when no plugin provides that one.
    """
    url = settings.NOVELLA_MEMBERSHIP_URL
    place = MembershipLocation(url=url, data_dir=settings.NOVELLA_DATA)
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
    """Return the live members of all memberships, by name. Raises Unavailable when one of them does not respond."""
    found = {member.life: member for membership in memberships() for member in membership.members()}
    return sorted(found.values(), key=lambda member: (member.name, member.worker))


class ConductorGroup:
    """A conductor's membership in its group: it is visible to the others, and takes over from those that die."""

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
    """Release a dead process's runs in these journals; where that fails, its leases expire by themselves. Never raises.

    Of a dead scheduler, the runs that wait for its reply call another one.

    Leases of periodic work for the whole cloud are in the API database, whichever journals this process serves.
    """
    for alias in dict.fromkeys((*aliases, API_ALIAS)):
        try:
            freed = recovery.take_over_from(alias, life)
        except Exception:
            log.exception("leases of a dead process run out by themselves: alias=%s life=%s", alias, life)
        else:
            if freed:
                log.warning("a process died, its runs go on: alias=%s life=%s runs=%s", alias, life, freed)
    try:
        scheduler_calls.note_end(life)
    except Exception:
        log.exception("calls of a dead scheduler are made again at their deadline: life=%s", life)
    connections.close_all()  # the thread is the membership's: it may end now, or wait for long
