"""Sends commands to hosts of older releases. Each command is downgraded to a version that the hosts of its cell know.

Rows of the outbox keep the newest form, and each send downgrades anew: a host that was upgraded or downgraded meanwhile
gets the version that it knows then.
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
# A process caches the versions this long: they change with upgrades.
REMEMBERED_SECONDS = 5.0


class HostTooOld(NotSupported):
    """The agent of the host runs a version that has no words for the command."""


@dataclass(frozen=True)
class CellVersions:
    """Service versions of a cell's hosts: the lowest of all, and the versions of hosts that differ."""

    lowest: int
    others: Mapping[str, int]

    def by(self, host: str) -> int:
        return self.others.get(host, self.lowest)


_known: dict[str, tuple[float, CellVersions]] = {}
_lock = threading.Lock()


def forget() -> None:
    """Drop the cache."""
    with _lock:
        _known.clear()


def versions_in(alias: str) -> CellVersions:
    """Return the versions of the cell's hosts. A host that has never reported counts as the lowest."""
    with _lock:
        read_at, versions = _known.get(alias, (0.0, None))
    if versions is not None and time.monotonic() - read_at < REMEMBERED_SECONDS:
        return versions
    rows = dict(Service.objects.using(alias).filter(binary=BINARY).values_list("host", "version"))
    lowest = min([SERVICE_VERSION, *rows.values()])
    versions = CellVersions(lowest, {host: version for host, version in rows.items() if version != lowest})
    with _lock:
        _known[alias] = (time.monotonic(), versions)
    return versions


def knows(alias: str, host: str, command: type[Any]) -> bool:
    """Return whether the host's agent knows commands of this type, in whatever version."""
    version = versions_in(alias).by(host)
    return version >= SERVICE_VERSION or command.MESSAGE_NAME in known_to(version)


def for_host(alias: str, host: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an encoded command in the form of the cell's oldest host, or of `host` if only that one knows the command.

    Raises HostTooOld when neither knows it.
    """
    versions = versions_in(alias)
    if versions.lowest >= SERVICE_VERSION:  # the typical case
        return dict(body)
    try:
        return downgraded(body, versions.lowest)
    except Inexpressible:
        pass
    try:
        return downgraded(body, versions.by(host))
    except Inexpressible as missing:
        raise HostTooOld(
            f"The agent of host {host} runs service version {versions.by(host)} of {SERVICE_VERSION}, which does not "
            f"know {missing}. Upgrade it, and try again."
        ) from None


def downgraded(body: Mapping[str, Any], service_version: int) -> dict[str, Any]:
    """Return an encoded message in the form of that service version. Raises Inexpressible."""
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
