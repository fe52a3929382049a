"""Tap devices of the host, by which guests send and receive frames."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compute_drivers import programs

TUN = Path("/dev/net/tun")
PLUG_FAILED = "The port could not be plugged"


def key_of(folder: Path) -> str:
    """Return the key of the host with this folder: names of its devices contain it, as hosts may share a machine."""
    return hashlib.sha256(str(folder).encode()).hexdigest()[:4]


def short(name: str) -> str:
    """Return a short hash: device names have at most fifteen characters."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def devices(*prefixes: str) -> set[str]:
    """Return the names of the devices that begin with one of the prefixes. Raises DriverError."""
    output = programs.check_output("The devices could not be listed", "ip", "-json", "link", "show")
    found = {str(link["ifname"]) for link in json.loads(output or b"[]") if "ifname" in link}
    return {name for name in found if name.startswith(prefixes)}


def add(device: str, uid: int | None) -> None:
    """Make a tap that `uid` may open; None: the uid of this process. Raises DriverError."""
    owner = () if uid is None else ("user", str(uid))
    programs.check_output(PLUG_FAILED, "ip", "tuntap", "add", "dev", device, "mode", "tap", *owner)


def start(device: str, *words: str, failure: str = PLUG_FAILED) -> None:
    """Set a device up, without addresses of the host; `words` change it in the same call. Raises DriverError."""
    programs.check_output(failure, "ip", "link", "set", device, *words, "addrgenmode", "none", "up")


def remove(device: str) -> None:
    """Remove a device, if it is there. Raises DriverError."""
    if device in devices(device):
        programs.check_output("The port could not be unplugged", "ip", "link", "delete", device)


def counters(macs: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the traffic of each device, given with its MAC address, by the guest's view. Raises DriverError."""
    output = programs.check_output(
        "The ports could not be counted", "ip", "-json", "-stats", "link", "show", "type", "tun"
    )
    links = {link["ifname"]: link.get("stats64", {}) for link in json.loads(output or b"[]")}
    return [_counters(mac, links[device]) for device, mac in macs.items() if device in links]


def _counters(mac_address: str, stats: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Swap receive and transmit: what the host's end has sent, the guest has received."""
    found: dict[str, Any] = {"mac_address": mac_address}
    for ours, theirs in (("tx", "rx"), ("rx", "tx")):
        counted = stats.get(ours, {})
        found |= {f"{theirs}_octets": counted.get("bytes", 0), f"{theirs}_packets": counted.get("packets", 0)}
        found |= {f"{theirs}_drop": counted.get("dropped", 0), f"{theirs}_errors": counted.get("errors", 0)}
    return found
