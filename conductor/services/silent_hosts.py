"""Tells of hosts that fell silent: of all that happens to a host it is the one thing that no message brings."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings

from conductor import events
from conductor.cell_db.models import Service
from conductor.journal.models import Duty
from conductor.services.host_reports import BINARY
from conductor.transactions import database_now, database_time, write_tx

NAME = "silent hosts"
MOST_AT_ONCE = 1000  # a cell that was off for long finds thousands: they are told of look by look


def tell(alias: str) -> list[str]:
    """Append `host.silent` for each host of the cell that fell silent since somebody told of others; their names.

    The duty's `done_at` is up to when all was told. It is written only with what is told, so that several conductors
    tell of a host once; where nobody ever looked, what is silent already is no news.
    """
    if not _fallen(alias, database_time(alias)):  # the usual answer, which needs no write
        return []
    with write_tx(alias):
        Duty.objects.using(alias).select_for_update().get(name=NAME)
        now = database_time(alias)
        fallen = _fallen(alias, now)
        limit = max((heard_at for heard_at, _ in fallen[:MOST_AT_ONCE]), default=now)
        told = [host for heard_at, host in fallen if heard_at <= limit]
        for host in told:
            events.append(alias, events.about_host(host), "host.silent")
        up_to = now if len(told) == len(fallen) else limit + _down()
        Duty.objects.using(alias).filter(name=NAME).update(done_at=up_to)
    return told


def _fallen(alias: str, now: datetime) -> list[tuple[datetime, str]]:
    """Those who are to be told of, with when each was heard last, the longest silent first."""
    told_at = Duty.objects.using(alias).filter(name=NAME).values_list("done_at", flat=True).first()
    if told_at is None:
        with write_tx(alias):
            Duty.objects.using(alias).get_or_create(name=NAME, defaults={"done_at": now})
        return []
    silent = Service.objects.using(alias).filter(
        binary=BINARY, last_seen_at__lte=database_now(-settings.NOVELLA_HOST_DOWN_SECONDS)
    )
    heard = silent.order_by("last_seen_at").values_list("last_seen_at", "host")
    return [(heard_at, host) for heard_at, host in heard if told_at - _down() < heard_at <= now - _down()]


def _down() -> timedelta:
    return timedelta(seconds=settings.NOVELLA_HOST_DOWN_SECONDS)
