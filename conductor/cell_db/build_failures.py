"""Consecutive build failures of each host of a cell.

Only a failure writes. A later success is derived from its instance, so it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db.models import F, Max

from conductor.cell_db.models import ComputeNode, Instance
from conductor.db.transactions import database_now


def note(alias: str, host: str) -> None:
    """Record a failed build on the host; inside a transaction."""
    nodes = ComputeNode.objects.using(alias).filter(host=host)
    count = F("failed_builds") + 1 if in_a_row(alias, [host]) else 1
    nodes.update(failed_builds=count, build_failed_at=database_now())


def in_a_row(alias: str, hosts: Iterable[str] | None = None) -> dict[str, int]:
    """Return host → consecutive failures, for those of the hosts (or of all) that have any."""
    nodes = ComputeNode.objects.using(alias).filter(failed_builds__gt=0, build_failed_at__isnull=False)
    if hosts is not None:
        nodes = nodes.filter(host__in=hosts)
    rows = nodes.values_list("host", "failed_builds", "build_failed_at")
    failed = {host: (count, at) for host, count, at in rows if at is not None}
    launched = _launched(alias, failed) if failed else {}
    return {host: count for host, (count, at) in failed.items() if host not in launched or launched[host] <= at}


def _launched(alias: str, hosts: Iterable[str]) -> dict[str, datetime]:
    """Return when each host last started an instance."""
    instances = Instance.objects.using(alias).filter(host__in=list(hosts), launched_at__isnull=False)
    return dict(instances.values_list("host").annotate(at=Max("launched_at")))
