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
        for host in fallen:
            events.append(alias, events.about_host(host), "host.silent")
        Duty.objects.using(alias).filter(name=NAME).update(done_at=now)
    return fallen


def _fallen(alias: str, now: datetime) -> list[str]:
    told_at = Duty.objects.using(alias).filter(name=NAME).values_list("done_at", flat=True).first()
    if told_at is None:
        with write_tx(alias):
            Duty.objects.using(alias).get_or_create(name=NAME, defaults={"done_at": now})
        return []
    down = timedelta(seconds=settings.NOVELLA_HOST_DOWN_SECONDS)
    silent = Service.objects.using(alias).filter(
        binary=BINARY, last_seen_at__lte=database_now(-settings.NOVELLA_HOST_DOWN_SECONDS)
    )
    heard = silent.values_list("host", "last_seen_at")
    return sorted(host for host, heard_at in heard if told_at - down < heard_at <= now - down)
