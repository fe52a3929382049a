"""The DHCP server of a network on this host: dnsmasq, which knows our ports and answers nobody else."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from compute_drivers import guest_metadata, programs
from compute_drivers.guest_metadata import GuestPages
from compute_drivers.host_net.honest import SERVER
from conductor.core.compute_driver import NetworkPort, PortAddress
from conductor.core.errors import DriverError

WHAT = "The addresses of the network could not be served"
NOT_IN_HOST_NAMES = re.compile(r"[^A-Za-z0-9-]")
LEASE = "1d"
END_SECONDS = 5.0


@dataclass(frozen=True)
class Client:
    """A port, what its guest is called, and what it reads of itself where that is known."""

    port: NetworkPort
    hostname: str
    pages: GuestPages | None = field(default=None, compare=False)

    @property
    def leased(self) -> PortAddress | None:
        """Of its addresses the one that DHCP gives; further ones a guest takes by itself. None: it has but IPv6."""
        return next((one for one in self.port.addresses if ":" not in one.ip_address), None)


def configuration(bridge: str, pid_file: Path, clients: Sequence[Client]) -> str:
    """What dnsmasq is told: leases for the cards that we know, by their ports' addresses, and none for others."""
    lines = [
        *("port=0", f"interface={bridge}", "except-interface=lo", "bind-interfaces", f"pid-file={pid_file}"),
        *("dhcp-authoritative", "leasefile-ro", "no-ping", "quiet-dhcp", "dhcp-no-override", "user=nobody"),
    ]
    leases = [(client, leased) for client in clients if (leased := client.leased) is not None]
    for tag, (cidr, address) in enumerate(sorted({leased.cidr: leased for _, leased in leases}.items())):
        network = IPv4Network(cidr)
        lines.append(f"shared-network={bridge},{network.network_address}")
        lines.append(f"dhcp-range=set:subnet{tag},{network.network_address},static,{network.netmask},{LEASE}")
        lines += [f"dhcp-option=tag:subnet{tag},{option}" for option in _options(address)]
    for client, leased in sorted(leases, key=lambda one: one[0].port.port_uuid):
        name = NOT_IN_HOST_NAMES.sub("", client.hostname)[:63].strip("-") or "guest"
        lines.append(f"dhcp-host={client.port.mac_address.lower()},{leased.ip_address},{name},{LEASE}")
    return "\n".join([*lines, ""])


def _options(address: PortAddress) -> list[str]:
    """Without a value an option is left out: dnsmasq would name itself."""
    router = _ipv4_of(address.gateway_ip)
    on_link = (one for service in (SERVER, guest_metadata.ADDRESS) for one in (f"{service}/32", "0.0.0.0"))
    ways = [*on_link, *(one for gateway in router for one in ("0.0.0.0/0", gateway))]
    return [
        ",".join(["option:router", *router]),
        ",".join(["option:dns-server", *_ipv4_of(*address.dns_nameservers)]),
        # Who heeds these ways out heeds no router, so it is named again.
        ",".join(["option:classless-static-route", *ways]),
    ]


def _ipv4_of(*addresses: str) -> list[str]:
    """Those that are; a line of settings is no place for anything else."""
    found = []
    for address in addresses:
        with suppress(ValueError):
            found.append(str(IPv4Address(address)))
    return found


class DhcpServer:
    """One process for one bridge, which runs on when we end and is found by its file."""

    def __init__(self, folder: Path, bridge: str) -> None:
        self._bridge = bridge
        self._settings = folder / f"{bridge}.dnsmasq"
        self._pid_file = folder / f"{bridge}.pid"

    def serve(self, clients: Sequence[Client]) -> None:
        """These from now on; one that serves them already is left alone. Raises DriverError."""
        wanted = configuration(self._bridge, self._pid_file, clients)
        if self._pid() is not None and self._settings.read_text() == wanted:
            return
        self.end()
        self._settings.write_text(wanted)
        # It goes to the background once its socket is there: what is wrong is said before.
        programs.must(WHAT, "dnsmasq", f"--conf-file={self._settings}")

    def end(self) -> None:
        """Raises DriverError for one that does not end."""
        pid = self._pid()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + END_SECONDS
            while self._pid() is not None:
                if time.monotonic() > deadline:
                    raise DriverError("The DHCP server of a network does not end.")
                time.sleep(0.005)
        for path in (self._settings, self._pid_file):
            path.unlink(missing_ok=True)

    def _pid(self) -> int | None:
        """None where it does not run: a number may be somebody else's by now."""
        try:
            pid = int(self._pid_file.read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(self._settings) in words else None
