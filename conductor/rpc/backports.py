"""Speaking to hosts that were not upgraded yet: commands leave in the version that their cell understands.

Rows of the outbox keep the newest form. What is sent is said anew each time: a host that was upgraded meanwhile, or
taken back, gets what it knows then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conductor.cell_db.models import Service
from conductor.core.errors import NotSupported
from conductor.rpc.messages.downgrades import DOWNGRADES, Inexpressible
from conductor.rpc.versions import SERVICE_VERSION, known_to

BINARY = "nova-compute"
# For so long a process believes what it has read: versions change when somebody upgrades.
REMEMBERED_SECONDS = 5.0


class HostTooOld(NotSupported):
    """The agent of the host runs a version that has no words for the command."""


@dataclass(frozen=True)
class Spoken:
    """What the hosts of a cell speak: the lowest service version of all, and that of each that speaks another."""

    lowest: int
    others: Mapping[str, int]

    def by(self, host: str) -> int:
        return self.others.get(host, self.lowest)


_known: dict[str, tuple[float, Spoken]] = {}
_gate = threading.Lock()


def forget() -> None:
    """Read again at the next command."""
    with _gate:
        _known.clear()


def spoken_in(alias: str) -> Spoken:
    """What the hosts of the cell speak; a host that has never reported counts as the lowest."""
    with _gate:
        read_at, spoken = _known.get(alias, (0.0, None))
    if spoken is not None and time.monotonic() - read_at < REMEMBERED_SECONDS:
        return spoken
    rows = dict(Service.objects.using(alias).filter(binary=BINARY).values_list("host", "version"))
    lowest = min([SERVICE_VERSION, *rows.values()])
    spoken = Spoken(lowest, {host: version for host, version in rows.items() if version != lowest})
    with _gate:
        _known[alias] = (time.monotonic(), spoken)
    return spoken


def for_host(alias: str, host: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """An encoded command as the cell's oldest host would understand it, or if only `host` itself does, as it does.

    Raises HostTooOld when neither has words for it.
    """
    spoken = spoken_in(alias)
    if spoken.lowest >= SERVICE_VERSION:  # nearly always
        return dict(body)
    try:
        return lowered(body, spoken.lowest)
    except Inexpressible:
        pass
    try:
        return lowered(body, spoken.by(host))
    except Inexpressible as missing:
        raise HostTooOld(
            f"The agent of host {host} runs service version {spoken.by(host)} of {SERVICE_VERSION}, which does not "
            f"know {missing}. Upgrade it, and try again."
        ) from None


def lowered(body: Mapping[str, Any], service_version: int) -> dict[str, Any]:
    """An encoded message as that service version knows it. Raises Inexpressible."""
    name, version, values = body["message"], body["version"], body["body"]
    wanted = known_to(service_version).get(name)
    if wanted is None:
        raise Inexpressible(name)
    while _number(version) > _number(wanted):
        if (name, version) not in DOWNGRADES:
            raise Inexpressible(f"{name} {version}")
        before, say = DOWNGRADES[name, version]
        try:
            version, values = before, say(values)
        except Inexpressible as lost:
            raise Inexpressible(f"{name} with {lost}") from None
    return {**body, "version": version, "body": dict(values)}


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
