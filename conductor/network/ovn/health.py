"""The health of OVN's parts, read from its databases without OVN's client libraries and without a replica.

Each full pass of the projection raises the number of the configuration. Northd and the hosts report the number back
when they have applied it.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conductor.network.ovn.errors import DatabaseUnavailable
from conductor.network.ovn.gateways import gateway_hosts_of
from conductor.network.ovn.northbound import CONTESTED
from conductor.network.ovn.tls import TlsFiles

_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True)
class OvnHealth:
    """The number of the last configuration, and the numbers that northd and each host have carried out.

    `gateways` are the hosts that connect routers with external networks, `contested` the rows of the northbound
    database that others keep changing.
    """

    configuration: int
    northd: int
    hosts: Mapping[str, int]
    gateways: frozenset[str] = frozenset()
    contested: tuple[str, ...] = ()

    @property
    def is_northd_late(self) -> bool:
        return self.northd < self.configuration

    @property
    def late_hosts(self) -> list[str]:
        """Return the hosts that have not carried out the configuration before the last one."""
        return sorted(name for name, carried_out in self.hosts.items() if carried_out < self.configuration - 1)

    @property
    def dead_gateways(self) -> list[str]:
        """Return the gateways that have not carried out what northd gave to hosts two configurations ago."""
        return sorted(name for name in self.gateways if self.hosts.get(name, 0) < self.northd - 1)


def read(northbound: str, southbound: str, *, seconds: float, tls: TlsFiles | None = None) -> OvnHealth:
    """Query both databases, each within `seconds`. Raises DatabaseUnavailable."""
    own = _select(northbound, seconds, tls, "OVN_Northbound", "NB_Global", ["nb_cfg", "sb_cfg", "external_ids"])
    hosts = _select(southbound, seconds, tls, "OVN_Southbound", "Chassis_Private", ["name", "nb_cfg"])
    chassis = _select(southbound, seconds, tls, "OVN_Southbound", "Chassis", ["name", "other_config"])
    reported = {row["name"]: dict(row["other_config"][1]) for row in chassis}
    first: dict[str, Any] = own[0] if own else {"nb_cfg": 0, "sb_cfg": 0, "external_ids": ["map", []]}
    return OvnHealth(
        first["nb_cfg"],
        first["sb_cfg"],
        {row["name"]: row["nb_cfg"] for row in hosts},
        frozenset(host.name for host in gateway_hosts_of(reported)),
        tuple(json.loads(dict(first["external_ids"][1]).get(CONTESTED, "[]"))),
    )


def _select(
    remotes: str, seconds: float, tls: TlsFiles | None, database: str, table: str, columns: list[str]
) -> list[dict[str, Any]]:
    """Return all rows of a table, from the first server that answers."""
    operation = {"op": "select", "table": table, "where": [], "columns": columns}
    request = {"id": 0, "method": "transact", "params": [database, operation]}
    failure = ""
    for remote in remotes.split(","):
        try:
            answer = _ask(remote, request, seconds, tls)
        except (OSError, ValueError) as error:
            failure = f"{remote}: {error}"
            continue
        if answer.get("error") is None:
            rows: list[dict[str, Any]] = answer["result"][0]["rows"]
            return rows
        failure = f"{remote}: {answer['error']}"
    raise DatabaseUnavailable(failure)


def _ask(remote: str, request: Mapping[str, Any], seconds: float, tls: TlsFiles | None) -> dict[str, Any]:
    """Send a request of OVSDB (RFC 7047) and return the answer. Raises OSError, ValueError, DatabaseUnavailable."""
    with _connected(remote, seconds, tls) as link:
        link.sendall(json.dumps(request).encode())
        received = b""
        while chunk := link.recv(_AT_ONCE):
            received += chunk
            try:
                found: dict[str, Any] = json.loads(received)
            except ValueError:  # the answer is incomplete
                continue
            return found
    raise ConnectionResetError("closed the connection")


def _connected(remote: str, seconds: float, tls: TlsFiles | None) -> socket.socket:
    kind, _, address = remote.partition(":")
    if kind == "unix":
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(seconds)
        link.connect(address)
        return link
    if kind == "ssl" and tls is not None:
        return tls.context().wrap_socket(socket.create_connection(_place(address), seconds))
    return socket.create_connection(_place(address), seconds)


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
