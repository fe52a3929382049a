"""Detection of unresponsive hosts. It is the one change of a host that no message reports."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings

from conductor import events
from conductor.cell_db.models import Service
from conductor.db.transactions import database_now, database_time, write_tx
from conductor.journal.models import PeriodicLease
from conductor.services.fleet.reports import BINARY

NAME = "unresponsive hosts"
MOST_AT_ONCE = 1000  # after a long outage of a cell there are thousands; these are reported in batches


def report(alias: str) -> list[str]:
    """Append `host.unresponsive` for each host of the cell that stopped reporting since the last check. Return the
    names.

    The lease's `done_at` is the time up to which hosts were reported. It is written together with the events, so that
    several conductors report a host once. The very first check reports none.
    """
    if not _fallen(alias, database_time(alias)):  # the typical case, which needs no write
        return []
    with write_tx(alias):
        PeriodicLease.objects.using(alias).select_for_update().get(name=NAME)
        now = database_time(alias)
        fallen = _fallen(alias, now)
        limit = max((heard_at for heard_at, _ in fallen[:MOST_AT_ONCE]), default=now)
        lines = [host for heard_at, host in fallen if heard_at <= limit]
        for host in lines:
            events.append(alias, events.about_host(host), "host.unresponsive")
        up_to = now if len(lines) == len(fallen) else limit + _down()
        PeriodicLease.objects.using(alias).filter(name=NAME).update(done_at=up_to)
    return lines


def _fallen(alias: str, now: datetime) -> list[tuple[datetime, str]]:
    """Return the hosts to report, with the time of their last heartbeat, the oldest first."""
    notified_at = PeriodicLease.objects.using(alias).filter(name=NAME).values_list("done_at", flat=True).first()
    if notified_at is None:
        with write_tx(alias):
            PeriodicLease.objects.using(alias).get_or_create(name=NAME, defaults={"done_at": now})
        return []
    unresponsive = Service.objects.using(alias).filter(
        binary=BINARY, last_seen_at__lte=database_now(-settings.NOVELLA_HOST_DOWN_SECONDS)
    )
    heard = unresponsive.order_by("last_seen_at").values_list("last_seen_at", "host")
    return [(heard_at, host) for heard_at, host in heard if notified_at - _down() < heard_at <= now - _down()]


def _down() -> timedelta:
    return timedelta(seconds=settings.NOVELLA_HOST_DOWN_SECONDS)
