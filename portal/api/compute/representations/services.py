"""JSON of compute services, per microversion."""

from __future__ import annotations

from typing import Any

from conductor.services.hosts.types import ServiceView
from portal.api.compute.representations import parts
from portal.api.microversions import Microversion

DOWN_CELLS_SINCE = "2.69"


def show(service: ServiceView, version: Microversion) -> dict[str, Any]:
    """Return a service; only its name where its cell does not answer."""
    if not service.is_known:
        return {"binary": service.binary, "host": service.host, "status": "UNKNOWN"}
    shown = {
        "id": service.uuid if version.covers("2.53") else service.number,
        "binary": service.binary,
        "host": service.host,
        "zone": service.zone,
        "status": "disabled" if service.is_disabled else "enabled",
        "state": "up" if service.is_up else "down",
        "updated_at": parts.to_the_digit(service.last_seen_at),
        "disabled_reason": service.disabled_reason,
    }
    return shown | {"forced_down": service.is_forced_down} if version.covers("2.11") else shown


def by_name(service: ServiceView, action: str) -> dict[str, Any]:
    """Return the answer to a change in the older format, which names services by host and binary."""
    shown: dict[str, Any] = {"host": service.host, "binary": service.binary}
    if action == "force-down":
        return shown | {"forced_down": service.is_forced_down}
    shown["status"] = "disabled" if service.is_disabled else "enabled"
    return shown | {"disabled_reason": service.disabled_reason} if action == "disable-log-reason" else shown
