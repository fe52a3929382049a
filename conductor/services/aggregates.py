"""Aggregates: operators' groups of hosts."""

from __future__ import annotations

from uuid import UUID

from conductor.api_db.models import Aggregate, AggregateHost
from conductor.core.context import RequestContext
from conductor.core.errors import NotFound
from conductor.placement import aggregates as placed
from conductor.services.values import AggregateView


def list_all(context: RequestContext) -> list[AggregateView]:
    """Every aggregate, oldest first."""
    return [_view(row) for row in Aggregate.objects.prefetch_related("hosts").order_by("pk")]


def get(context: RequestContext, ref: str) -> AggregateView:
    """An aggregate by number or uuid. Raises NotFound."""
    for aggregate in list_all(context):
        if ref in (str(aggregate.number), aggregate.uuid):
            return aggregate
    raise NotFound(f"Aggregate {ref} could not be found.")


def mirror(host: str, node_uuid: UUID | str) -> None:
    """Have the provider of a host in the aggregates of the host, and where clients of placement put it besides."""
    rows = list(Aggregate.objects.values_list("uuid", flat=True))
    mine = AggregateHost.objects.filter(host=host).values_list("aggregate__uuid", flat=True)
    placed.settle(node_uuid, mine, among=rows)


def _view(row: Aggregate) -> AggregateView:
    hosts = tuple(sorted(member.host for member in row.hosts.all()))
    return AggregateView(row.pk, str(row.uuid), row.name, dict(row.metadata), hosts)
