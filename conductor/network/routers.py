"""Routers: create, update, delete, and their gateways; for interfaces see router_interfaces.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.db.transactions import write_tx
from conductor.network import filters, port_rows, quotas, router_routes, zones
from conductor.network.device_owners import ROUTER_GATEWAY
from conductor.network.errors import (
    InvalidInput,
    RouterExternalGatewayInUseByFloatingIp,
    RouterInUse,
    RouterNotFound,
)
from conductor.network.filters import NetworkListQuery
from conductor.network.models import Port, Router
from conductor.network.operations import get_network, is_external_for, refuse_other_project
from conductor.network.port_rows import AddressRequest
from conductor.network.revisions import touch
from conductor.network.router_routes import Route, interfaces


@dataclass(frozen=True, slots=True)
class GatewayRequest:
    """Gateway of a router. None where not given: addresses are then allocated, and SNAT stays as it is (or on)."""

    network_id: str
    fixed_ips: Sequence[AddressRequest] | None = None
    is_snat_enabled: bool | None = None


@dataclass(frozen=True, slots=True)
class RouterCreate:
    """A router to create. `values` maps field names to values. `has_gateway`: the request has a gateway field."""

    values: Mapping[str, Any]
    has_gateway: bool = False
    gateway: GatewayRequest | None = None
    routes: Sequence[Route] | None = None


def visible_routers(context: RequestContext) -> QuerySet[Router]:
    rows = Router.objects.select_related("gateway_port__network")
    rows = rows.prefetch_related("gateway_port__addresses__subnet")
    return rows if context.is_admin else rows.filter(project_id=context.project_id)


def list_routers(context: RequestContext, query: NetworkListQuery) -> list[Router]:
    """Return routers with their gateways, in a constant number of queries."""
    return filters.select(visible_routers(context), query, filters.ROUTERS)


def get_router(context: RequestContext, router_id: str) -> Router:
    """Return a router. Raises RouterNotFound, also for one that the caller may not see."""
    return filters.find_one(
        visible_routers(context), router_id, RouterNotFound(f"Router {router_id} could not be found")
    )


def create_router(context: RequestContext, requested: RouterCreate) -> Router:
    """Create a router. Raises NetworkNotFound, InvalidInput unless the gateway is external, and as port_rows.create."""
    values = {"project_id": context.project_id, **requested.values}
    refuse_other_project(context, values)
    zones.require(values.get("availability_zone_hints") or ())
    with write_tx():
        quotas.require(values["project_id"], "router")
        now = timezone.now()
        router = Router.objects.create(**values, created_at=now, updated_at=now)
        if requested.gateway:
            _set_gateway(context, router, requested.gateway)
    return get_router(context, str(router.uuid))


def update_router(context: RequestContext, router_id: str, requested: RouterCreate) -> Router:
    """Update a router. Raises as create_router, and where floating IPs or routes use a removed gateway or address."""
    with write_tx():
        router = locked_router(context, router_id)
        if requested.has_gateway and requested.gateway is None:
            _clear_gateway(router)
        elif requested.gateway:
            _set_gateway(context, router, requested.gateway)
        values = dict(requested.values)
        if requested.routes is not None:
            values["routes"] = router_routes.checked(router, requested.routes)
        touch(Router.objects.filter(pk=router.pk), **values)
    return get_router(context, router_id)


def delete_router(context: RequestContext, router_id: str) -> None:
    """Delete a router. Raises RouterInUse while it has interfaces."""
    with write_tx():
        router = locked_router(context, router_id)
        if interfaces(router).exists():
            raise RouterInUse(f"Router {router_id} still has ports")
        _clear_gateway(router)
        router.delete()


def change_routes(context: RequestContext, router_id: str, wanted: Sequence[Route], *, is_added: bool) -> Router:
    """Add or remove routes; idempotent."""
    with write_tx():
        router = locked_router(context, router_id)
        named = router_routes.normalised(wanted)
        rest = [route for route in router.routes if route not in named]
        routes = router_routes.checked(router, rest + named) if is_added else rest
        touch(Router.objects.filter(pk=router.pk), routes=routes)
    return get_router(context, router_id)


def locked_router(context: RequestContext, router_id: str) -> Router:
    """Return the router, locked with its related rows; inside a write transaction, until its end."""
    router = get_router(context, router_id)
    found = Router.objects.select_for_update().filter(pk=router.pk).first()
    if found is None:
        raise RouterNotFound(f"Router {router_id} could not be found")
    return found


def _set_gateway(context: RequestContext, router: Router, requested: GatewayRequest) -> None:
    _refuse_details(context, requested)
    network = get_network(context, requested.network_id)
    if not is_external_for(network, router.project_id):
        raise InvalidInput(
            f"Bad router request: Network {requested.network_id} is not an external network.", type="BadRequest"
        )
    port = router.gateway_port
    requests = None if requested.fixed_ips is None else list(requested.fixed_ips)
    if port is not None and port.network_id == network.pk:
        if requests is not None:
            port_rows.replace_addresses(port, requests)
    else:
        _clear_gateway(router)
        values = {"project_id": "", "device_owner": ROUTER_GATEWAY, "device_id": str(router.uuid), "status": "ACTIVE"}
        port = port_rows.create(network, groups=(), requests=requests, **values)
    router_routes.refuse_overlap(router, [held.subnet for held in port.addresses.select_related("subnet")])
    router.gateway_port = port
    router.is_snat_enabled = router.is_snat_enabled if requested.is_snat_enabled is None else requested.is_snat_enabled
    router.save(update_fields=["gateway_port", "is_snat_enabled"])


def _clear_gateway(router: Router) -> None:
    port = router.gateway_port
    if port is None:
        return
    if router.floating_ips.exists():
        raise RouterExternalGatewayInUseByFloatingIp(
            f"Gateway cannot be updated for router {router.uuid}, since a gateway to external network "
            f"{port.network.uuid} is required by one or more floating IPs."
        )
    router_routes.refuse_cut(router, port)
    router.gateway_port, router.is_snat_enabled = None, True
    router.save(update_fields=["gateway_port", "is_snat_enabled"])
    Port.objects.filter(pk=port.pk).delete()


def _refuse_details(context: RequestContext, requested: GatewayRequest) -> None:
    if context.is_admin:
        return
    for value, name in ((requested.fixed_ips, "external_fixed_ips"), (requested.is_snat_enabled, "enable_snat")):
        if value is not None:
            raise Forbidden(f"Only an administrator may set {name}.", type="PolicyNotAuthorized")
