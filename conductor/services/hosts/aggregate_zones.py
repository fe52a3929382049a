"""Availability zones of hosts: that of their aggregates, otherwise the default zone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conductor.api_db.models import AggregateHost
from conductor.cell_db.models import Instance

ZONE_KEY = "availability_zone"
DEFAULT_ZONE = "nova"
CHUNK = 500  # names in one query: databases limit the number of parameters


def of_hosts(hosts: Iterable[str], *, but: int | None = None) -> dict[str, str]:
    """Return the zone of each host that an aggregate puts into one. `but` ignores the aggregate with that number."""
    wanted, found = sorted(hosts), dict[str, str]()
    for start in range(0, len(wanted), CHUNK):
        members = AggregateHost.objects.filter(host__in=wanted[start : start + CHUNK]).exclude(aggregate=but)
        for host, metadata in members.values_list("host", "aggregate__metadata"):
            zone = metadata.get(ZONE_KEY)
            if zone:  # in two zones by a manual change: the first by name counts, as in the scheduler
                found[host] = min(found.get(host, zone), zone)
    return found


def zone_of(host: str) -> str:
    """Return the zone of one host."""
    return of_hosts([host]).get(host, DEFAULT_ZONE)


def has_servers(cell: str, hosts: Sequence[str]) -> bool:
    """Whether any of these hosts of a cell has a server."""
    return any(
        Instance.objects.using(cell).alive().filter(host__in=hosts[start : start + CHUNK]).exists()
        for start in range(0, len(hosts), CHUNK)
    )
