"""Routers: kept, shown, and given addresses; their interfaces are router_interfaces.py's business."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.core.identifiers import uuid_or_none
from conductor.network import filters, port_rows, quotas, router_routes, zones
from conductor.network.errors import (
    InvalidInput,
    RouterExternalGatewayInUseByFloatingIp,
    RouterInUse,
    RouterNotFound,
)
from conductor.network.filters import ListQuery
from conductor.network.models import Port, Router
from conductor.network.operations import get_network, is_external_for, refuse_other_project
from conductor.network.port_rows import AddressWish
from conductor.network.revisions import touch
from conductor.network.router_routes import Route, interfaces
from conductor.transactions import write_tx

GATEWAY = "network:router_gateway"


@dataclass(frozen=True, slots=True)
class GatewayWish:
    """The way out. None for what was not said: addresses are given then, and translation stays as it is (or on)."""

    network_id: str
    fixed_ips: Sequence[AddressWish] | None = None
    is_snat_enabled: bool | None = None


@dataclass(frozen=True, slots=True)
class RouterWish:
    """`values` maps field names of Router to values. `has_gateway` says whether a gateway, or none, was asked for."""

    values: Mapping[str, Any]
    has_gateway: bool = False
    gateway: GatewayWish | None = None
    routes: Sequence[Route] | None = None


def visible_routers(context: RequestContext) -> QuerySet[Router]:
    rows = Router.objects.select_related("gateway_port__network")
    rows = rows.prefetch_related("gateway_port__addresses__subnet")
    return rows if context.is_admin else rows.filter(project_id=context.project_id)


def list_routers(context: RequestContext, query: ListQuery) -> list[Router]:
    """Routers with their gateways, in a constant number of queries."""
    return filters.select(visible_routers(context), query, filters.ROUTERS)


def get_router(context: RequestContext, router_id: str) -> Router:
    """Raises RouterNotFound, also for one that the caller may not see."""
    wanted = uuid_or_none(router_id)
    router = visible_routers(context).filter(uuid=wanted).first() if wanted else None
    if router is None:
        raise RouterNotFound(f"Router {router_id} could not be found")
    return router


def create_router(context: RequestContext, wish: RouterWish) -> Router:
    """Raises NetworkNotFound, InvalidInput for a gateway that is not external, and what port_rows.create raises."""
    values = {"project_id": context.project_id, **wish.values}
    refuse_other_project(context, values)
    zones.require(values.get("availability_zone_hints") or ())
    with write_tx():
        quotas.require(values["project_id"], "router")
        now = timezone.now()
        router = Router.objects.create(**values, created_at=now, updated_at=now)
        if wish.gateway:
            _set_gateway(context, router, wish.gateway)
    return get_router(context, str(router.uuid))


def update_router(context: RequestContext, router_id: str, wish: RouterWish) -> Router:
    """Raises as create_router does, and where floating IPs or routes go by what is taken away."""
    with write_tx():
        router = locked_router(context, router_id)
        if wish.has_gateway and wish.gateway is None:
            _clear_gateway(router)
        elif wish.gateway:
            _set_gateway(context, router, wish.gateway)
        values = dict(wish.values)
        if wish.routes is not None:
            values["routes"] = router_routes.checked(router, wish.routes)
        touch(Router.objects.filter(pk=router.pk), **values)
    return get_router(context, router_id)


def delete_router(context: RequestContext, router_id: str) -> None:
    """Raises RouterInUse while it has interfaces."""
    with write_tx():
        router = locked_router(context, router_id)
        if interfaces(router).exists():
            raise RouterInUse(f"Router {router_id} still has ports")
        _clear_gateway(router)
        router.delete()


def change_routes(context: RequestContext, router_id: str, wanted: Sequence[Route], *, is_added: bool) -> Router:
    """Routes put to those that are there, or taken from them; nothing where it is so already."""
    with write_tx():
        router = locked_router(context, router_id)
        named = router_routes.normalised(wanted)
        rest = [route for route in router.routes if route not in named]
        routes = router_routes.checked(router, rest + named) if is_added else rest
        touch(Router.objects.filter(pk=router.pk), routes=routes)
    return get_router(context, router_id)


def locked_router(context: RequestContext, router_id: str) -> Router:
    """Inside a write transaction: nobody else changes it, or what hangs on it, until the end."""
    router = get_router(context, router_id)
    found = Router.objects.select_for_update().filter(pk=router.pk).first()
    if found is None:
        raise RouterNotFound(f"Router {router_id} could not be found")
    return found


def _set_gateway(context: RequestContext, router: Router, wish: GatewayWish) -> None:
    _refuse_details(context, wish)
    network = get_network(context, wish.network_id)
    if not is_external_for(network, router.project_id):
        raise InvalidInput(
            f"Bad router request: Network {wish.network_id} is not an external network.", type="BadRequest"
        )
    port = router.gateway_port
    wishes = None if wish.fixed_ips is None else list(wish.fixed_ips)
    if port is not None and port.network_id == network.pk:
        if wishes is not None:
            port_rows.replace_addresses(port, wishes)
    else:
        _clear_gateway(router)
        values = {"project_id": "", "device_owner": GATEWAY, "device_id": str(router.uuid), "status": "ACTIVE"}
        port = port_rows.create(network, groups=(), wishes=wishes, **values)
    router_routes.refuse_overlap(router, [held.subnet for held in port.addresses.select_related("subnet")])
    router.gateway_port = port
    router.is_snat_enabled = router.is_snat_enabled if wish.is_snat_enabled is None else wish.is_snat_enabled
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


def _refuse_details(context: RequestContext, wish: GatewayWish) -> None:
    if context.is_admin:
        return
    for value, name in ((wish.fixed_ips, "external_fixed_ips"), (wish.is_snat_enabled, "enable_snat")):
        if value is not None:
            raise Forbidden(f"Only an administrator may set {name}.", type="PolicyNotAuthorized")
