"""Aggregates: operators' groups of hosts. One with the metadata key `availability_zone` is a zone.

Placement mirrors them, in the transaction that changes the group. A cell shows the new zone of its hosts after the
commit, or else after the host's next full report.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from uuid import UUID

from conductor.api_db.models import Aggregate, AggregateHost, HostMapping
from conductor.cell_db.models import ComputeNode, Service
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.scheduling.count_limits import CountLimit
from conductor.db.transactions import database_now, one_at_a_time, write_tx
from conductor.placement import aggregates as placed
from conductor.plugins import registry
from conductor.services.hosts import aggregate_zones
from conductor.services.hosts.aggregate_zones import DEFAULT_ZONE, ZONE_KEY, zone_of
from conductor.services.hosts.types import AggregateView

COMPUTE = "nova-compute"
# Rules across several aggregates hold only when changes are serialized.
LOCK_NAME = "aggregates"


def list_all(context: RequestContext) -> list[AggregateView]:
    """Return every aggregate, oldest first."""
    return [_view(row) for row in Aggregate.objects.prefetch_related("hosts").order_by("pk")]


def get(context: RequestContext, ref: str) -> AggregateView:
    """Return an aggregate by number or uuid. Raises NotFound."""
    for aggregate in list_all(context):
        if ref in (str(aggregate.number), aggregate.uuid):
            return aggregate
    raise NotFound(f"Aggregate {ref[:60]} could not be found.")


def create(context: RequestContext, name: str, zone: str | None = None) -> AggregateView:
    """Create an aggregate without hosts. Raises Conflict when the name is taken."""
    with write_tx():
        one_at_a_time(API_ALIAS, LOCK_NAME)
        _refuse_taken(name)
        row = Aggregate.objects.create(name=name, metadata={ZONE_KEY: zone} if zone else {})
    return get(context, str(row.uuid))


def update(context: RequestContext, ref: str, name: str | None, changes: Mapping[str, str | None]) -> AggregateView:
    """Change the name, the metadata, or both.

    Raises Conflict for a name that is taken, and what `set_metadata` raises.
    """
    return _change(context, ref, name, changes)


def set_metadata(context: RequestContext, ref: str, changes: Mapping[str, str | None]) -> AggregateView:
    """Set metadata keys, and remove those whose value is None.

    Raises:
        Invalid: some hosts cannot be in the zone, as they are in another one or have servers; or a multiplier or limit
            is not a number.
    """
    return _change(context, ref, None, changes)


def add_host(context: RequestContext, ref: str, host: str) -> AggregateView:
    """Add a host to an aggregate.

    Raises NotFound for an unknown host, Conflict for one that is in the aggregate, in another zone, or has servers
    whose zone would change.
    """
    aggregate = get(context, ref)
    cell, nodes = _home_of(host)
    with write_tx():
        one_at_a_time(API_ALIAS, LOCK_NAME)
        row = _held(aggregate)
        if row.hosts.filter(host=host).exists():
            raise Conflict(f"Aggregate {row.pk} already has host {host}.")
        zone = row.metadata.get(ZONE_KEY)
        if zone:
            _refuse_move(host, cell, zone, others_than=row)
        AggregateHost.objects.create(aggregate=row, host=host)
        placed.join(row.uuid, nodes)
        _touch(row)
    _show_zones([host])
    return get(context, ref)


def remove_host(context: RequestContext, ref: str, host: str) -> AggregateView:
    """Remove a host from an aggregate.

    Raises NotFound for a host that is not in it, Conflict for one with servers whose zone would change.
    """
    aggregate = get(context, ref)
    if host not in aggregate.hosts:
        raise NotFound(f"Cannot remove host {host} in aggregate {aggregate.number}: it is not there.")
    cell, nodes = _home_or_nothing(host)
    with write_tx():
        one_at_a_time(API_ALIAS, LOCK_NAME)
        row = _held(aggregate)
        before = zone_of(host)
        row.hosts.filter(host=host).delete()
        if cell and zone_of(host) != before and aggregate_zones.has_servers(cell, [host]):
            raise Conflict(
                f"Host {host} cannot leave aggregate {row.pk}: it has servers, which would change their zone. "
                "Move or delete them first."
            )
        placed.leave(row.uuid, nodes)
        _touch(row)
    _show_zones([host])
    return get(context, ref)


def delete(context: RequestContext, ref: str) -> None:
    """Delete an aggregate. Raises NotFound, or Invalid while there are hosts in it."""
    aggregate = get(context, ref)
    with write_tx():
        one_at_a_time(API_ALIAS, LOCK_NAME)
        row = _held(aggregate)
        if row.hosts.exists():
            raise Invalid(f"Cannot delete aggregate {row.pk}: it is not empty. Remove its hosts first.")
        row.delete()


def mirror(host: str, node_uuid: UUID | str) -> None:
    """Put a host's provider into the host's aggregates. Aggregates that placement clients set in addition stay."""
    rows = list(Aggregate.objects.values_list("uuid", flat=True))
    mine = AggregateHost.objects.filter(host=host).values_list("aggregate__uuid", flat=True)
    placed.settle(node_uuid, mine, among=rows)


def _change(context: RequestContext, ref: str, name: str | None, changes: Mapping[str, str | None]) -> AggregateView:
    aggregate = get(context, ref)
    check(changes)
    with write_tx():
        one_at_a_time(API_ALIAS, LOCK_NAME)
        row = _held(aggregate)
        if name is not None and name != row.name:
            _refuse_taken(name)
            row.name = name
        hosts = sorted(row.hosts.values_list("host", flat=True))
        if ZONE_KEY in changes and changes[ZONE_KEY] != row.metadata.get(ZONE_KEY):
            _refuse_zone(row, changes[ZONE_KEY], hosts)
        merged = {**row.metadata, **changes}
        row.metadata = {key: value for key, value in merged.items() if value is not None}
        row.save(update_fields=["name", "metadata"])
        _touch(row)
    if ZONE_KEY in changes:
        _show_zones(hosts)
    return get(context, ref)


def _refuse_taken(name: str) -> None:
    if Aggregate.objects.filter(name=name).exists():
        raise Conflict(f"Aggregate {name} already exists.")


def _refuse_zone(row: Aggregate, zone: str | None, hosts: list[str]) -> None:
    """Raise Invalid when hosts of the aggregate are in another zone, or the zone of servers would change."""
    if zone == "":
        raise Invalid("The availability zone of an aggregate must not be empty; null removes it.", field=ZONE_KEY)
    if zone is not None:
        elsewhere = sorted(set(aggregate_zones.of_hosts(hosts, but=row.pk).values()) - {zone})
        if elsewhere:
            raise Invalid(
                f"Cannot put aggregate {row.pk} into zone {zone}: hosts of it are in {', '.join(elsewhere)}.",
                field=ZONE_KEY,
            )
    cells = dict(HostMapping.objects.filter(host__in=hosts).values_list("host", "cell__name"))
    for cell in sorted(set(cells.values())):
        if aggregate_zones.has_servers(cell, [host for host, home in cells.items() if home == cell]):
            raise Invalid(
                f"Cannot change the zone of aggregate {row.pk}: hosts of it have servers, which would change theirs.",
                field=ZONE_KEY,
            )


def _refuse_move(host: str, cell: str, zone: str, *, others_than: Aggregate) -> None:
    other = aggregate_zones.of_hosts([host], but=others_than.pk).get(host)
    if other is not None and other != zone:
        raise Conflict(f"Host {host} cannot be added to zone {zone}: it is in zone {other}.")
    if other is None and zone != DEFAULT_ZONE and aggregate_zones.has_servers(cell, [host]):
        raise Conflict(
            f"Host {host} cannot be added to zone {zone}: it has servers, which would change their zone. "
            "Move or delete them first."
        )


def _held(aggregate: AggregateView) -> Aggregate:
    row = Aggregate.objects.select_for_update().filter(pk=aggregate.number).first()
    if row is None:
        raise NotFound(f"Aggregate {aggregate.number} could not be found.")
    return row


def _touch(row: Aggregate) -> None:
    Aggregate.objects.filter(pk=row.pk).update(updated_at=database_now())


def _home_of(host: str) -> tuple[str, list[str]]:
    """Return the cell of a host and its nodes. Raises NotFound for an unknown host."""
    cell, nodes = _home_or_nothing(host)
    if not nodes:
        raise NotFound(f"Compute host {host[:60]} could not be found.")
    return cell, nodes


def _home_or_nothing(host: str) -> tuple[str, list[str]]:
    mapping = HostMapping.objects.select_related("cell").filter(host=host).first()
    if mapping is None:
        return "", []
    nodes = ComputeNode.objects.using(mapping.cell.name).filter(host=host).order_by("pk")
    return mapping.cell.name, [str(uuid) for uuid in nodes.values_list("uuid", flat=True)]


def _show_zones(hosts: Iterable[str]) -> None:
    """Write the zones of these hosts to their cells. After a crash before this, their next full reports do it."""
    cells = dict(HostMapping.objects.filter(host__in=list(hosts)).values_list("host", "cell__name"))
    zones = aggregate_zones.of_hosts(cells)
    for cell in sorted(set(cells.values())):
        with write_tx(cell):
            for host in sorted(host for host, home in cells.items() if home == cell):
                services = Service.objects.using(cell).filter(binary=COMPUTE, host=host)
                services.update(availability_zone=zones.get(host, DEFAULT_ZONE))


def _view(row: Aggregate) -> AggregateView:
    hosts = tuple(sorted(member.host for member in row.hosts.all()))
    return AggregateView(row.pk, str(row.uuid), row.name, dict(row.metadata), hosts, row.created_at, row.updated_at)


def check(changes: Mapping[str, str | None]) -> None:
    """Check metadata changes; None removes a key. Raises Invalid naming the key."""
    found = registry()
    factors = {one.multiplier_option for one in found.loaded_weighers}
    limits = {one.option for one in found.loaded_filters if isinstance(one, CountLimit) and one.asks_aggregates}
    for key, value in changes.items():
        if value is None:
            continue
        if key in factors and not _is_number(value):
            _refuse(key, value, "a number, such as 1.5")
        if key in limits and not _is_count(value):
            _refuse(key, value, "a whole number from 0 on")


def _refuse(key: str, value: str, needed: str) -> None:
    raise Invalid(f'Aggregate metadata {key}: "{value[:60]}" is not {needed}.', field=f"metadata.{key}")


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _is_count(value: str) -> bool:
    try:
        return int(value) >= 0
    except ValueError:
        return False
