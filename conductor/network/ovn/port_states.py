"""The states of ports as OVN reports them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from conductor.db.transactions import write_tx
from conductor.network.models import Port
from conductor.network.revisions import touch

UP, DOWN = "ACTIVE", "DOWN"
_AT_ONCE = 500


class PluggedPort(NamedTuple):
    """A port of a guest on a host, with its state as it was read."""

    pk: int
    uuid: str
    host: str
    status: str


def record(ports: Iterable[PluggedPort], hosts: Collection[str], up_ports: Mapping[str, str]) -> None:
    """Record which of these ports are up.

    Args:
        hosts: The hosts whose network OVN carries. Ports of other hosts stay unchanged.
        up_ports: The host of each port that is up, by the port's id.
    """
    changed: dict[str, list[int]] = {UP: [], DOWN: []}
    for port in ports:
        wanted = UP if up_ports.get(port.uuid) == port.host else DOWN
        if port.host in hosts and port.status != wanted:
            changed[wanted].append(port.pk)
    for status, keys in changed.items():
        for start in range(0, len(keys), _AT_ONCE):
            with write_tx():
                still_plugged = Port.objects.filter(
                    pk__in=keys[start : start + _AT_ONCE], is_plugged=True, migrating_to=""
                )
                touch(still_plugged, status=status)
