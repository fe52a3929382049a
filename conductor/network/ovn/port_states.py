"""The states of ports as OVN reports them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from conductor.db.transactions import write_tx
from conductor.network.models import Port
from conductor.network.revisions import touch

UP, DOWN = "ACTIVE", "DOWN"
_AT_ONCE = 500


def record(hosts: Collection[str], up_ports: Mapping[str, str]) -> None:
    """Record which plugged ports of these hosts are up. A port whose guest is moving stays unchanged.

    Args:
        hosts: The hosts whose network OVN carries. Ports of other hosts stay unchanged.
        up_ports: The host of each port that is up, by the port's id.
    """
    plugged = Port.objects.filter(is_plugged=True, migrating_to="").exclude(binding_host="")
    changed: dict[str, list[int]] = {UP: [], DOWN: []}
    for pk, uuid, host, status in plugged.values_list("pk", "uuid", "binding_host", "status").iterator(2000):
        wanted = UP if up_ports.get(str(uuid)) == host else DOWN
        if host in hosts and status != wanted:
            changed[wanted].append(pk)
    for status, keys in changed.items():
        for start in range(0, len(keys), _AT_ONCE):
            with write_tx():
                still_plugged = Port.objects.filter(pk__in=keys[start : start + _AT_ONCE], is_plugged=True)
                touch(still_plugged, status=status)
