"""Availability zones: where hosts say they are, as everybody may see it."""

from __future__ import annotations

from conductor.core.context import RequestContext
from conductor.services import hosts
from conductor.services.values import ServiceView, ZoneView


def list_zones(context: RequestContext) -> list[ZoneView]:
    """The zones that have compute hosts, by name. A zone is available when one of its hosts takes work."""
    return _zones([service for service in hosts.list_services(context, binary=hosts.COMPUTE).items if service.is_known])


def list_all(context: RequestContext) -> list[ZoneView]:
    """The same, and the zone `internal` of services that run no guests: for operators."""
    return _zones([service for service in hosts.list_services(context).items if service.is_known])


def exists(context: RequestContext, name: str) -> bool:
    """Whether there is such a zone with a compute host in it."""
    return any(zone.name == name for zone in list_zones(context))


def _zones(services: list[ServiceView]) -> list[ZoneView]:
    by_name: dict[str, list[ServiceView]] = {}
    for service in services:
        by_name.setdefault(service.zone, []).append(service)
    return [
        ZoneView(name, any(one.is_up and not one.is_disabled for one in members), tuple(members))
        for name, members in sorted(by_name.items())
    ]
