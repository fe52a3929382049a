"""Records unchanged reports of many hosts at once: heartbeats by one statement, full comparisons by a few queries.

All other reports are recorded one by one, by `reports`. The functions raise OperationalError or InterfaceError where
the database does not answer.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, connections

from conductor import events
from conductor.api_db.models import Aggregate, AggregateHost, HostMapping
from conductor.cell_db import statements
from conductor.cell_db.models import ComputeNode, Instance, Migration, Service
from conductor.cells.targeting import target_cell
from conductor.core.compute_driver import NodeReport
from conductor.core.states import MigrationStatus, MigrationType
from conductor.db.transactions import retried, write_tx
from conductor.placement import reported
from conductor.placement.reported import ReportedProvider
from conductor.rpc.messages import HostReported
from conductor.services.fleet import reports
from conductor.services.fleet.reported_guests import Placed, are_settled
from conductor.services.hosts import aggregate_zones

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecordedSet:
    """Reports of a set.

    Attributes:
        due: Reports that only counted as heartbeats, as a full comparison is due.
        others: Reports to be recorded one by one.
    """

    stored: list[HostReported]
    due: list[HostReported]
    others: list[HostReported]


@retried
def record_all(cell: str, messages: Sequence[HostReported]) -> RecordedSet:
    """Store unchanged reports, at most one of each host."""
    digests = {message.host: reports.digest_of(message) for message in messages}
    with target_cell(cell), write_tx(cell):
        heard = statements.repeat_reports(connections[cell], _keys(messages, digests), _down_seconds())
    stored = [message for message in messages if heard.get(message.host) == digests[message.host]]
    due = [message for message in messages if message.host in heard and heard[message.host] != digests[message.host]]
    others = [message for message in messages if message.host not in heard]
    returned = _returned(cell, others, digests)
    compared = compare_all(cell, returned)
    return RecordedSet(
        [*stored, *compared.stored], due, [*compared.others, *(one for one in others if one not in returned)]
    )


def compare_all(cell: str, messages: Sequence[HostReported]) -> RecordedSet:
    """Compare reports in full with the rows of the cell and of placement, and store those that equal them.

    A host that was down is reported as up again.
    """
    same = unchanged(cell, messages) if messages else set()
    settled = [message for message in messages if message.host in same]
    if settled:
        _store_compared(cell, settled)
    return RecordedSet(settled, [], [message for message in messages if message.host not in same])


@retried
def _store_compared(cell: str, messages: Sequence[HostReported]) -> None:
    digests = {message.host: reports.digest_of(message) for message in messages}
    with target_cell(cell), write_tx(cell):
        down = digests.keys() - reports.are_up(cell, digests)
        if down:
            _renumber(cell, [message for message in messages if message.host in down])
        statements.store_compared(connections[cell], _keys(messages, digests))


def _renumber(cell: str, messages: Sequence[HostReported]) -> None:
    """Make schedulers read the nodes of hosts again that were down. Call it inside `write_tx(cell)`."""
    number = reports.next_change_number(cell)
    reported_nodes = {(message.host, message.report["node"]) for message in messages}
    rows = ComputeNode.objects.using(cell).filter(host__in=[message.host for message in messages]).order_by("pk")
    changed = [row for row in rows.only("host", "node") if (row.host, row.node) in reported_nodes]
    for row in changed:
        row.change_number = number
        events.append(cell, events.about_host(row.host), "host.updated", {"was_up": False})
    ComputeNode.objects.using(cell).bulk_update(changed, ["change_number"])


def _returned(cell: str, messages: Sequence[HostReported], digests: Mapping[str, str]) -> list[HostReported]:
    """Return the reports that equal the last ones of hosts which were down since then."""
    if not messages:
        return []
    rows = Service.objects.using(cell).filter(binary=reports.BINARY, host__in=[one.host for one in messages])
    known = {
        host: (number, digest) for host, number, digest in rows.values_list("host", "report_number", "report_digest")
    }
    return [
        message
        for message in messages
        if message.host in known
        and known[message.host][0] < message.report_number
        and reports.is_same_but_for_comparison(known[message.host][1], digests[message.host])
    ]


def record_or_log(cell: str, message: HostReported) -> bool:
    """Record one report as `reports.record` does. A report that cannot be stored is logged, and affects no other.

    Raises OperationalError or InterfaceError where the database does not answer.
    """
    try:
        return reports.record(cell, message)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("report not stored: host=%s", message.host)
        return False


def _keys(messages: Iterable[HostReported], digests: Mapping[str, str]) -> list[statements.ReportKey]:
    return [(message.host, message.report_number, digests[message.host]) for message in messages]


def _down_seconds() -> float:
    return float(settings.NOVELLA_HOST_DOWN_SECONDS)


# -- the full comparison


def unchanged(cell: str, messages: Iterable[HostReported]) -> set[str]:
    """Return the hosts for which `reports.record` would change nothing but the digest."""
    by_host = {message.host: message for message in messages}
    with target_cell(cell):
        candidates = _as_in_cell(cell, by_host)
        memberships, aggregate_uuids = _aggregates(candidates)
        wanted = {
            uuid: ReportedProvider(
                NodeReport.from_json(by_host[host].report), is_disabled, frozenset(memberships[host])
            )
            for host, (uuid, is_disabled) in candidates.items()
        }
        same = reported.unchanged(wanted, aggregate_uuids)
    return {host for host, (uuid, _) in candidates.items() if uuid in same}


def _as_in_cell(cell: str, by_host: Mapping[str, HostReported]) -> dict[str, tuple[UUID, bool]]:
    """Return the node's uuid, and whether the host is disabled, of hosts whose rows in the cell are as reported."""
    hosts = list(by_host)
    zones = aggregate_zones.of_hosts(hosts)
    mapped = set(HostMapping.objects.filter(host__in=hosts, cell__name=cell).values_list("host", flat=True))
    evacuated = set(
        Migration.objects.using(cell)
        .filter(source_host__in=hosts, migration_type=MigrationType.EVACUATION, status=MigrationStatus.DONE)
        .values_list("source_host", flat=True)
    )
    nodes = _nodes(cell, by_host)
    placed = _placed(cell, hosts)
    services = Service.objects.using(cell).filter(binary=reports.BINARY, host__in=hosts)
    return {
        host: (nodes[host], is_disabled)
        for host, zone, version, is_disabled in services.values_list(
            "host", "availability_zone", "version", "is_disabled"
        )
        if host in mapped
        and host in nodes
        and host not in evacuated
        and zone == zones.get(host, aggregate_zones.DEFAULT_ZONE)
        and version == by_host[host].service_version
        and are_settled(placed[host], by_host[host].guests)
    }


def _nodes(cell: str, by_host: Mapping[str, HostReported]) -> dict[str, UUID]:
    """Return the uuids of the reported nodes that are stored as reported, by host."""
    rows = ComputeNode.objects.using(cell).filter(host__in=list(by_host))
    return {
        host: uuid
        for host, node, uuid, running, report in rows.values_list("host", "node", "uuid", "running_guests", "report")
        if node == by_host[host].report["node"]
        and running == reports.running_guests(by_host[host])
        and report == by_host[host].report
    }


def _placed(cell: str, hosts: list[str]) -> defaultdict[str, list[Placed]]:
    found: defaultdict[str, list[Placed]] = defaultdict(list)
    rows = Instance.objects.using(cell).alive().filter(host__in=hosts)
    for host, *values in rows.values_list("host", *Placed._fields):
        found[host].append(Placed(*values))
    return found


def _aggregates(hosts: Iterable[str]) -> tuple[defaultdict[str, set[UUID]], frozenset[UUID]]:
    """Return the aggregates of each host, and all aggregates."""
    found: defaultdict[str, set[UUID]] = defaultdict(set)
    rows = AggregateHost.objects.filter(host__in=list(hosts))
    for host, uuid in rows.values_list("host", "aggregate__uuid"):
        found[host].add(uuid)
    return found, frozenset(Aggregate.objects.values_list("uuid", flat=True))
