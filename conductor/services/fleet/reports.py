"""Reports of compute hosts: heartbeats, inventories and guests."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import Any
from zlib import crc32

from django.conf import settings
from django.db import connections
from django.db.models import Max

from conductor import events
from conductor.api_db.models import Aggregate, AggregateHost, CellMapping, HostMapping
from conductor.cell_db import statements
from conductor.cell_db.models import ComputeNode, Service
from conductor.cells.lookup import API_ALIAS
from conductor.cells.targeting import target_cell
from conductor.core.compute_driver import NodeReport
from conductor.core.errors import Conflict, Invalid
from conductor.core.states import PowerState, WaitCause
from conductor.db.dialect import NOW
from conductor.db.rows import Rows
from conductor.db.transactions import database_now, one_at_a_time, write_tx
from conductor.placement import hardware, inventories, traits
from conductor.rpc import outbox
from conductor.rpc.messages import HostReported
from conductor.services.fleet import evacuations, reported_guests
from conductor.services.hosts import aggregate_zones, aggregates

log = logging.getLogger(__name__)

BINARY = "nova-compute"
# A report that equals the last one is compared with the cell's rows only at intervals. These are in time, not in
# reports, as a busy host sends many.
FULL_LOOK_SECONDS = 60
clock = time.time
MOST_NODES = 10  # per host, as the scheduler looks at every node
SERVICES = Rows(Service, "id")


def record(cell: str, message: HostReported) -> bool:
    """Store a report in `cell`.

    An unchanged report costs one UPDATE.

    Returns:
        False for a report that changes nothing: an older or repeated one, one of another cell's host, or one of a host
            that keeps reporting new nodes.
    """
    digest = digest_of(message)
    with target_cell(cell):
        with write_tx(cell):
            is_known = _repeats_last_report(cell, message, digest)
            changes_guests_only = not is_known and _changes_guests_only(cell, message, digest)
        if changes_guests_only:
            evacuations.clean(cell, message.host, message.guests)
        if is_known or changes_guests_only:
            return True
        report = NodeReport.from_json(message.report)
        known = _nodes_of(cell, message.host)
        if not _belongs(cell, message) or not _may_have_node(known, message.host, report.node):
            return False
        node_uuid = _take(cell, message, report)
        if node_uuid is None:
            return False
        try:
            inventories.report(node_uuid, report.node, report.inventory, report.traits)
            hardware.report(node_uuid, report.numa_cells, report.pci_devices)
        except (Conflict, Invalid) as error:
            log.error("nothing can be placed on host %s: %s", message.host, error)
            return True
        _update_placement(cell, message.host, node_uuid)
        if report.node not in known:
            _wake_first_requests()
        _settle(cell, message, digest)
        evacuations.clean(cell, message.host, message.guests)
    return True


def _update_placement(cell: str, host: str, node_uuid: Any) -> None:
    """Copy a host's disabled state and aggregates to its provider. This repairs a crash between the two databases."""
    closed = Service.objects.using(cell).filter(binary=BINARY, host=host, is_disabled=True)
    traits.mark([node_uuid], traits.DISABLED, is_on=closed.exists())
    aggregates.mirror(host, node_uuid)


def _repeats_last_report(cell: str, message: HostReported, digest: str) -> bool:
    """Record a heartbeat. Return whether the host was up, and its last report was the same and was settled."""
    return statements.repeat_report(
        connections[cell], message.host, message.report_number, settings.NOVELLA_HOST_DOWN_SECONDS, digest
    )


def _changes_guests_only(cell: str, message: HostReported, digest: str) -> bool:
    """Record a report. Return whether the host was up, and only its guests differ from the last report."""
    connection = connections[cell]
    found = statements.lock_same_state(
        connection, message.host, message.report_number, settings.NOVELLA_HOST_DOWN_SECONDS, _available(digest)
    )
    if found is None:
        return False
    service_id, before = found
    unsettled = reported_guests.settle(cell, message.host, message.guests, json.loads(before))
    SERVICES.update(
        connection,
        service_id,
        guests=message.guests,
        unsettled=asdict(unsettled),
        report_number=message.report_number,
        report_digest=_available(digest) if unsettled.is_any else digest,
        last_seen_at=NOW,
    )
    statements.set_running_guests(connection, message.host, message.report["node"], running_guests(message))
    return True


def _belongs(cell: str, message: HostReported) -> bool:
    """Whether the host is in this cell. An unknown host is mapped to the cell, and put into its zone."""
    mapping = HostMapping.objects.filter(host=message.host).select_related("cell").first()
    if mapping is None:
        with write_tx(API_ALIAS):
            home = CellMapping.objects.get(name=cell)
            mapping, is_new = HostMapping.objects.get_or_create(host=message.host, defaults={"cell": home})
            if is_new:
                _enter_zone(message.host, message.availability_zone)
    if mapping.cell.name != cell:
        log.error("report refused: host=%s belongs to %s, not to %s", message.host, mapping.cell.name, cell)
        return False
    return True


def _wake_first_requests() -> None:
    """Wake the launches that came before the first report of a host."""
    with write_tx(API_ALIAS):
        outbox.wake_waiting_for(API_ALIAS, WaitCause.FIRST_REPORT)


def _nodes_of(cell: str, host: str) -> list[str]:
    return list(ComputeNode.objects.using(cell).filter(host=host).values_list("node", flat=True))


def _may_have_node(nodes: Sequence[str], host: str, name: str) -> bool:
    """Whether a host with these nodes may report one of this name: it has the node, or has few others."""
    is_allowed = name in nodes or len(nodes) < MOST_NODES
    if not is_allowed:
        log.error("report refused: host=%s has %d nodes already, and reports another: %s", host, len(nodes), name)
    return is_allowed


def _enter_zone(host: str, zone: str) -> None:
    """Add a host to the aggregate of its zone, which is created if missing. The default zone needs none.

    The host itself reports the zone's name. Only operators may add a host to an aggregate that is more than this zone,
    such as one for certain projects. Such a host stays in the default zone.
    """
    if zone in ("", aggregate_zones.DEFAULT_ZONE):
        return
    only_zone = {aggregate_zones.ZONE_KEY: zone}
    aggregate, _ = Aggregate.objects.get_or_create(name=zone, defaults={"metadata": only_zone})
    if aggregate.metadata != only_zone:
        log.warning("host %s is not in zone %s: add it to the aggregate of this name yourself", host, zone)
        return
    AggregateHost.objects.get_or_create(aggregate=aggregate, host=host)


def _take(cell: str, message: HostReported, report: NodeReport) -> Any:
    """Write service and node. Return the node's uuid, or None if a newer report was stored before.

    The digest is stored last, so that after a crash in between the next report is processed in full.
    """
    with write_tx(cell):
        service = Service.objects.using(cell).select_for_update().filter(binary=BINARY, host=message.host).first()
        if service is not None and service.report_number >= message.report_number:
            return None
        was_up = service is not None and bool(are_up(cell, [message.host]))
        _write_service(cell, message)
        return _write_node(cell, message, report, was_up=was_up)


def are_up(cell: str, hosts: Iterable[str]) -> set[str]:
    """Return the hosts among these that have reported lately."""
    heard = Service.objects.using(cell).filter(binary=BINARY, host__in=list(hosts))
    up = heard.filter(last_seen_at__gt=database_now(-settings.NOVELLA_HOST_DOWN_SECONDS))
    return set(up.values_list("host", flat=True))


def _write_service(cell: str, message: HostReported) -> None:
    values = {
        "availability_zone": aggregate_zones.zone_of(message.host),
        "version": message.service_version,
        "is_simulated": message.is_simulated,
        "report_number": message.report_number,
        "report_digest": "",
        "guests": message.guests,
        "kept": message.kept,
        "last_seen_at": database_now(),
    }
    Service.objects.using(cell).update_or_create(
        binary=BINARY, host=message.host, defaults=values, create_defaults={**values, "created_at": database_now()}
    )


def _write_node(cell: str, message: HostReported, report: NodeReport, *, was_up: bool) -> Any:
    """Write the node and return its uuid. Its change number rises when the scheduler must read it again."""
    nodes = ComputeNode.objects.using(cell)
    node = nodes.filter(host=message.host, node=report.node).first()
    seen = {
        "driver": message.driver,
        "is_simulated": message.is_simulated,
        "hypervisor_type": report.hypervisor_type,
        "hypervisor_version": report.hypervisor_version,
        "host_ip": report.host_ip,
        "report": message.report,
    }
    running = running_guests(message)
    is_changed = node is None or not was_up or any(getattr(node, name) != value for name, value in seen.items())
    if not is_changed and node is not None:
        if node.running_guests != running:
            nodes.filter(pk=node.pk).update(running_guests=running, updated_at=database_now())
        return node.uuid
    values = {
        **seen,
        "running_guests": running,
        "change_number": next_change_number(cell),
        "updated_at": database_now(),
    }
    written, is_new = nodes.update_or_create(
        host=message.host,
        node=report.node,
        defaults=values,
        create_defaults={**values, "created_at": database_now()},
    )
    events.append(
        cell, events.about_host(message.host), "host.joined" if is_new else "host.updated", {"was_up": was_up}
    )
    return written.uuid


def next_change_number(cell: str) -> int:
    """Return the change number for the next node that schedulers must read again. Call it inside `write_tx(cell)`.

    Schedulers read rows above the last number that they saw, so numbers must rise in the order of the commits.
    """
    one_at_a_time(cell, "compute nodes: change number")
    return (ComputeNode.objects.using(cell).aggregate(last=Max("change_number"))["last"] or 0) + 1


def running_guests(message: HostReported) -> int:
    """Return how many guests of a report run."""
    return sum(state == PowerState.RUNNING for state in message.guests.values())


def _settle(cell: str, message: HostReported, digest: str) -> None:
    """Compare guests with instances, and store the report's digest. While guests are unsettled, only its first part is
    stored.
    """
    with write_tx(cell):
        services = Service.objects.using(cell).filter(
            binary=BINARY, host=message.host, report_number=message.report_number
        )
        service = services.select_for_update().first()
        if service is None:  # a newer report is being stored
            return
        unsettled = reported_guests.settle(cell, message.host, message.guests, service.unsettled)
        services.update(unsettled=asdict(unsettled), report_digest=_available(digest) if unsettled.is_any else digest)


def digest_of(message: HostReported) -> str:
    """Return the digest of a report, in the parts that `statements` names."""
    resources = _as_reported(message)
    guests = resources.pop("guests")
    del resources["report_number"], resources["driver_statistics"]  # never twice the same
    return f"{_resources_fingerprint(message.host, resources)}{_full_look(message.host):08x}{_fingerprint(guests)}"


# the last one of each host, with its fingerprint, as most of them stay equal
_resources: dict[str, tuple[dict[str, Any], str]] = {}


def _resources_fingerprint(host: str, resources: dict[str, Any]) -> str:
    known, fingerprint = _resources.get(host, ({}, ""))
    if known != resources:
        fingerprint = _fingerprint(resources)
        _resources[host] = (resources, fingerprint)
    return fingerprint


def is_same_but_for_comparison(digest: str, other: str) -> bool:
    """Whether two digests differ at most in the number of the full comparison."""
    ends = statements.RESOURCES_DIGEST_LENGTH, statements.STATE_DIGEST_LENGTH
    return digest[: ends[0]] == other[: ends[0]] and digest[ends[1] :] == other[ends[1] :]


def _fingerprint(values: Any) -> str:
    return hashlib.blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=16).hexdigest()


def _as_reported(message: HostReported) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in fields(message)}


def _full_look(host: str) -> int:
    """Return the number of the full comparison that is due. Hosts are spread over time."""
    return int(clock() + crc32(host.encode()) % FULL_LOOK_SECONDS) // FULL_LOOK_SECONDS


def _available(digest: str) -> str:
    """Return the part of a digest that does not depend on guests."""
    return digest[: statements.STATE_DIGEST_LENGTH]
