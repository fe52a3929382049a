"""IP availability of networks: total and allocated addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count

from conductor.core.context import RequestContext
from conductor.network import filters, operations, ranges
from conductor.network.filters import Condition, NetworkListQuery
from conductor.network.models import AddressAllocation, Network, Subnet

FILTERS: dict[str, Condition] = {
    "network_id": filters.uuid("uuid"),
    "network_name": filters.text("name"),
    "project_id": filters.text("project_id"),
    "tenant_id": filters.text("project_id"),
    "ip_version": lambda values: filters.number("subnets__ip_version")(values),
}


@dataclass(frozen=True, slots=True)
class SubnetUse:
    """Addresses of a subnet: in its pools, and allocated."""

    subnet: Subnet
    total: int
    used: int


@dataclass(frozen=True, slots=True)
class NetworkUse:
    """Totals of a network's subnets."""

    network: Network
    subnets: Sequence[SubnetUse]

    @property
    def total(self) -> int:
        return sum(use.total for use in self.subnets)

    @property
    def used(self) -> int:
        return sum(use.used for use in self.subnets)


def list_uses(context: RequestContext, query: NetworkListQuery) -> list[NetworkUse]:
    """Return usage of the networks that the caller may see, in a constant number of queries."""
    rows = operations.visible_networks(context).prefetch_related("subnets").distinct()
    networks = filters.select(rows, query, FILTERS)
    versions = {int(value) for value in query.filters.get("ip_version", ()) if value.isdigit()}
    subnets = [subnet for network in networks for subnet in network.subnets.all()]
    held = AddressAllocation.objects.filter(subnet__in=[subnet.pk for subnet in subnets]).order_by()
    used = dict(held.values_list("subnet_id").annotate(Count("id")))
    return [
        NetworkUse(
            network,
            [
                SubnetUse(subnet, ranges.in_pools(subnet.allocation_pools), used.get(subnet.pk, 0))
                for subnet in sorted(network.subnets.all(), key=lambda one: one.pk)
                if not versions or subnet.ip_version in versions
            ],
        )
        for network in networks
    ]


def get_use(context: RequestContext, network_id: str) -> NetworkUse:
    network = operations.get_network(context, network_id)
    return list_uses(context, NetworkListQuery({"network_id": [str(network.uuid)]}))[0]
