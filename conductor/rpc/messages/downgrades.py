"""Downgrades of messages for processes that know only an earlier version.

One row per message and version: the conversion to the version before. A field that the earlier version lacks may be
dropped only if its value is the earlier version's behaviour; otherwise the message is refused with the fix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from conductor.rpc.versions import DESCRIBING

Body = Mapping[str, Any]


class Inexpressible(Exception):
    """The earlier version has no words for this."""


def _spawn(body: Body) -> dict[str, Any]:
    """Downgrade to 1.0, which starts every guest, and has no volumes and no passwords."""
    guest = body["guest"]
    lost = [name for name in ("volumes", "admin_password") if guest.get(name)]
    if not body.get("is_running", True):
        lost.append("is_running")
    if lost:  # names only, because one of the values is a secret
        raise Inexpressible(", ".join(lost))
    known = {key: value for key, value in guest.items() if key not in ("volumes", "admin_password")}
    return {**{key: value for key, value in body.items() if key != "is_running"}, "guest": known}


def _plain(body: Body) -> dict[str, Any]:
    """Downgrade to guests without cells, pins and devices of their own."""
    guest = dict(body["guest"])
    if guest.pop("hardware", None):
        raise Inexpressible("hardware")
    return {**body, "guest": guest}


def _ports_without(*names: str) -> Callable[[Body], dict[str, Any]]:
    """Return a downgrade of ports: to ports without their network, or to ports with one address (without `more`).

    Older hosts behave like that already, so no guest is refused.
    """

    def lacking(port: Body) -> dict[str, Any]:
        return {key: value for key, value in port.items() if key not in names}

    def say(body: Body) -> dict[str, Any]:
        if "port" in body:
            return {**body, "port": lacking(body["port"])}
        guest = body["guest"]
        return {**body, "guest": {**guest, "ports": [lacking(port) for port in guest.get("ports", ())]}}

    return say


def _without_files(body: Body) -> dict[str, Any]:
    """Downgrade to guests without files, and to volumes that are locked for one guest."""
    guest = dict(body["guest"])
    if guest.pop("files", None):
        raise Inexpressible("files")
    return {**body, "guest": {**guest, "volumes": [_of_one_guest(volume) for volume in guest.get("volumes", ())]}}


def _unshared(body: Body) -> dict[str, Any]:
    return {**body, "volume": _of_one_guest(body["volume"])}


def _of_one_guest(volume: Body) -> dict[str, Any]:
    if volume.get("is_shared"):
        raise Inexpressible("a volume of several guests")
    return {key: value for key, value in volume.items() if key != "is_shared"}


_without_networks = _ports_without("network_uuid")
_without_addresses = _ports_without("ipv6_mode", "more")


def _without_whatever(name: str) -> Callable[[Body], dict[str, Any]]:
    """Return a downgrade that drops optional information."""
    return lambda body: {key: value for key, value in body.items() if key != name}


def _report(body: Body) -> dict[str, Any]:
    """Downgrade to 1.0, without hardware and metrics. The scheduler places nothing there that needs them."""
    newer = ("numa_cells", "pci_devices", "metrics")
    known = {key: value for key, value in body["report"].items() if key not in newer}
    return {**body, "report": known}


# (message, version) → (the version before, the conversion)
DOWNGRADES: Mapping[tuple[str, str], tuple[str, Callable[[Body], dict[str, Any]]]] = {
    ("spawn_instance", "1.1"): ("1.0", _spawn),
    ("spawn_instance", "1.2"): ("1.1", _plain),
    ("spawn_instance", "1.3"): ("1.2", _without_networks),
    ("spawn_instance", "1.4"): ("1.3", _without_addresses),
    ("take_over_instance", "1.1"): ("1.0", _without_networks),
    ("take_over_instance", "1.2"): ("1.1", _without_addresses),
    ("attach_interface", "1.1"): ("1.0", _without_networks),
    ("attach_interface", "1.2"): ("1.1", _without_addresses),
    **{(name, "1.1"): ("1.0", _plain) for name in DESCRIBING},
    **{(name, "1.2"): ("1.1", _without_networks) for name in DESCRIBING},
    **{(name, "1.3"): ("1.2", _without_addresses) for name in DESCRIBING},
    ("spawn_instance", "1.5"): ("1.4", _without_files),
    ("attach_volume", "1.1"): ("1.0", _unshared),
    ("swap_volume", "1.1"): ("1.0", _unshared),
    ("take_over_instance", "1.3"): ("1.2", _without_files),
    **{(name, "1.4"): ("1.3", _without_files) for name in DESCRIBING},
    ("host_reported", "1.1"): ("1.0", _report),
    ("host_reported", "1.2"): ("1.1", _without_whatever("driver_statistics")),
    ("host_reported", "1.3"): ("1.2", _without_whatever("kept")),
    ("step_progressed", "1.1"): ("1.0", _without_whatever("figures")),
}
