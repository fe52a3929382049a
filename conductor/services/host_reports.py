"""Takes in what compute hosts report: that they live, what they offer and which guests they have."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from dataclasses import asdict, fields
from typing import Any
from zlib import crc32

from django.conf import settings
from django.db import connections
from django.db.models import Max

from conductor import events
from conductor.api_db.models import Aggregate, AggregateHost, CellMapping, HostMapping
from conductor.cell_db.models import ComputeNode, Service
from conductor.cells.lookup import API_ALIAS
from conductor.cells.targeting import target_cell
from conductor.core.compute_driver import NodeReport
from conductor.core.errors import Conflict, Invalid
from conductor.core.states import PowerState
from conductor.placement import hardware, inventories, traits
from conductor.rpc.messages import HostReported
from conductor.services import aggregate_zones, aggregates, evacuations, reported_guests
from conductor.sql import dialect
from conductor.sql.dialect import NOW
from conductor.sql.rows import Rows
from conductor.transactions import database_now, one_at_a_time, write_tx

log = logging.getLogger(__name__)

BINARY = "nova-compute"
# A report that says the same as the last is not compared with the cell's rows, except now and then. It is time that
# counts, not reports: a host at work sends many.
FULL_LOOK_SECONDS = 60
clock = time.time
OFFER_LENGTH = 32  # of the two fingerprints in a digest, the first


# The service of a host that is up, when what it said last is older than the report; by hand, as hosts report for ever.
_SERVICE = '"binary" = %s AND host = %s AND report_number < %s AND last_seen_at > {later}'
_SAME = (
    "UPDATE cell_db_service SET last_seen_at = {now}, report_number = %s "
    f"WHERE {_SERVICE} AND report_digest = %s RETURNING id"
)
_SAME_OFFER = (
    "SELECT id, unsettled FROM cell_db_service "
    f"WHERE {_SERVICE} AND substr(report_digest, 1, {OFFER_LENGTH}) = %s {{for update}}"
)
_RUNNING = (
    "UPDATE cell_db_computenode SET running_guests = %s, updated_at = {now} "
    "WHERE host = %s AND node = %s AND running_guests <> %s"
)
SERVICES = Rows(Service, "id")


def record(cell: str, message: HostReported) -> bool:
    """Take a report into `cell`; False for older and repeated ones, which change nothing, and for another cell's host.

    One that says nothing new costs one UPDATE.
    """
    digest = _digest(message)
    with target_cell(cell):
        with write_tx(cell):
            is_known = _is_known_to_the_letter(cell, message, digest)
            tells_of_guests = not is_known and _tells_of_guests_only(cell, message, digest)
        if tells_of_guests:
            evacuations.clean(cell, message.host, message.guests)
        if is_known or tells_of_guests:
            return True
        if not _belongs(cell, message):
            return False
        report = NodeReport.from_json(message.report)
        node_uuid = _take(cell, message, report)
        if node_uuid is None:
            return False
        try:
            inventories.report(node_uuid, report.node, report.inventory, report.traits)
            hardware.report(node_uuid, report.numa_cells, report.pci_devices)
        except (Conflict, Invalid) as error:
            log.error("nothing can be placed on host %s: %s", message.host, error)
            return True
        _tell_placement(cell, message.host, node_uuid)
        _settle(cell, message, digest)
        evacuations.clean(cell, message.host, message.guests)
    return True


def _tell_placement(cell: str, host: str, node_uuid: Any) -> None:
    """What is known of a host here, its provider shows too, also when somebody died between the two databases."""
    closed = Service.objects.using(cell).filter(binary=BINARY, host=host, is_disabled=True)
    traits.mark([node_uuid], traits.DISABLED, is_on=closed.exists())
    aggregates.mirror(host, node_uuid)


def _is_known_to_the_letter(cell: str, message: HostReported, digest: str) -> bool:
    """An idle heartbeat: the host was up, said this before, and everything was settled then."""
    return bool(dialect.run(connections[cell], _SAME, (message.report_number, *_older_and_up(message), digest)))


def _tells_of_guests_only(cell: str, message: HostReported, digest: str) -> bool:
    """A host at work: it was up and offers what it did when that was taken in, and only its guests are others."""
    connection = connections[cell]
    heard = dialect.run(connection, _SAME_OFFER, (*_older_and_up(message), _offer(digest)))
    if not heard:
        return False
    ((service_id, before),) = heard
    unsettled = reported_guests.settle(cell, message.host, message.guests, json.loads(before))
    SERVICES.update(
        connection,
        service_id,
        guests=message.guests,
        unsettled=asdict(unsettled),
        report_number=message.report_number,
        report_digest=_offer(digest) if unsettled.is_any else digest,
        last_seen_at=NOW,
    )
    running = _running(message)
    dialect.run(connection, _RUNNING, (running, message.host, message.report["node"], running))
    return True


def _older_and_up(message: HostReported) -> tuple[Any, ...]:
    """What _SERVICE asks for."""
    return BINARY, message.host, message.report_number, -settings.NOVELLA_HOST_DOWN_SECONDS


def _belongs(cell: str, message: HostReported) -> bool:
    """Whether the host is this cell's. A host that nobody knew is mapped to the cell, and put into its zone."""
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


def _enter_zone(host: str, zone: str) -> None:
    """Zones are aggregates; hosts that name none are in the default zone, which needs none."""
    if zone in ("", aggregate_zones.DEFAULT_ZONE):
        return
    aggregate, _ = Aggregate.objects.get_or_create(name=zone, defaults={"metadata": {"availability_zone": zone}})
    AggregateHost.objects.get_or_create(aggregate=aggregate, host=host)


def _take(cell: str, message: HostReported, report: NodeReport) -> Any:
    """Write service and node; the node's uuid, or None when a newer report was here before.

    The digest is left empty until the rest is done too: whoever dies in between has the next report looked at.
    """
    with write_tx(cell):
        service = Service.objects.using(cell).select_for_update().filter(binary=BINARY, host=message.host).first()
        if service is not None and service.report_number >= message.report_number:
            return None
        was_up = service is not None and _was_up(cell, message.host)
        _write_service(cell, message)
        return _write_node(cell, message, report, was_up=was_up)


def _was_up(cell: str, host: str) -> bool:
    heard = Service.objects.using(cell).filter(binary=BINARY, host=host)
    return heard.filter(last_seen_at__gt=database_now(-settings.NOVELLA_HOST_DOWN_SECONDS)).exists()


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
    """The node's uuid; its change number rises when the scheduler must look at it again."""
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
    running = _running(message)
    is_changed = node is None or not was_up or any(getattr(node, name) != value for name, value in seen.items())
    if not is_changed and node is not None:
        if node.running_guests != running:
            nodes.filter(pk=node.pk).update(running_guests=running, updated_at=database_now())
        return node.uuid
    # The scheduler reads what is above the number that it has seen: numbers must rise in the order of the commits.
    one_at_a_time(cell, "compute nodes: change number")
    values = {
        **seen,
        "running_guests": running,
        "change_number": (nodes.aggregate(last=Max("change_number"))["last"] or 0) + 1,
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


def _running(message: HostReported) -> int:
    return sum(state == PowerState.RUNNING for state in message.guests.values())


def _settle(cell: str, message: HostReported, digest: str) -> None:
    """Compare guests with instances, and remember the report as known, or what it offers when guests are left over."""
    with write_tx(cell):
        services = Service.objects.using(cell).filter(
            binary=BINARY, host=message.host, report_number=message.report_number
        )
        service = services.select_for_update().first()
        if service is None:  # a newer report is being taken in
            return
        unsettled = reported_guests.settle(cell, message.host, message.guests, service.unsettled)
        services.update(unsettled=asdict(unsettled), report_digest=_offer(digest) if unsettled.is_any else digest)


def _digest(message: HostReported) -> str:
    """What the host offers, then which guests it has, as a fingerprint each."""
    said = {**_as_said(message), "report_number": _full_look(message.host)}
    guests = said.pop("guests")
    del said["doings"]  # never twice the same
    return "".join(
        hashlib.blake2b(json.dumps(part, sort_keys=True).encode(), digest_size=16).hexdigest()
        for part in (said, guests)
    )


def _as_said(message: HostReported) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in fields(message)}


def _full_look(host: str) -> int:
    """Which full look at a host is due; not all hosts' in the same moment."""
    return int(clock() + crc32(host.encode()) % FULL_LOOK_SECONDS) // FULL_LOOK_SECONDS


def _offer(digest: str) -> str:
    """The part of a digest that guests do not change."""
    return digest[:OFFER_LENGTH]
