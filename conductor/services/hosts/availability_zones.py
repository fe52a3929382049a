"""Availability zones as the hosts of all cells show them."""

from __future__ import annotations

from conductor.core.context import RequestContext
from conductor.services.hosts import hosts
from conductor.services.hosts.types import ServiceView, ZoneView


def list_zones(context: RequestContext) -> list[ZoneView]:
    """Return the zones that have compute hosts, by name. A zone is available if one of its hosts is up and enabled."""
    return _zones([service for service in hosts.list_services(context, binary=hosts.COMPUTE).items if service.is_known])


def list_all(context: RequestContext) -> list[ZoneView]:
    """Return all zones including `internal`, the zone of services without guests; for operators."""
    return _zones([service for service in hosts.list_services(context).items if service.is_known])


def exists(context: RequestContext, name: str) -> bool:
    """Whether there is a zone of this name with a compute host in it."""
    return any(zone.name == name for zone in list_zones(context))


def _zones(services: list[ServiceView]) -> list[ZoneView]:
    by_name: dict[str, list[ServiceView]] = {}
    for service in services:
        by_name.setdefault(service.zone, []).append(service)
    return [
        ZoneView(name, any(one.is_up and not one.is_disabled for one in members), tuple(members))
        for name, members in sorted(by_name.items())
    ]
