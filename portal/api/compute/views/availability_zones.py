"""Availability zones."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.services.hosts import availability_zones
from conductor.services.hosts.types import ServiceView, ZoneView
from portal.api.base import ApiRequest
from portal.api.compute.representations import parts
from portal.api.compute.view import BARE_SINCE, ComputeView


class AvailabilityZones(ComputeView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest) -> Response:
        zones = availability_zones.list_zones(request.context)
        return Response({"availabilityZoneInfo": [{**_zone(zone), "hosts": None} for zone in zones]})


class AvailabilityZonesDetail(ComputeView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest) -> Response:
        zones = availability_zones.list_all(request.context)
        return Response({"availabilityZoneInfo": [{**_zone(zone), "hosts": _hosts(zone)} for zone in zones]})


def _zone(zone: ZoneView) -> dict[str, Any]:
    return {"zoneName": zone.name, "zoneState": {"available": zone.is_available}}


def _hosts(zone: ZoneView) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for service in zone.services:
        found.setdefault(service.host, {})[service.binary] = _state(service)
    return found


def _state(service: ServiceView) -> dict[str, Any]:
    return {
        "available": service.is_up,
        "active": not service.is_disabled,
        "updated_at": parts.to_the_digit(service.last_seen_at),
    }
