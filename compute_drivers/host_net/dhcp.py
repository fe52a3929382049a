"""DHCP server of one bridge: dnsmasq with a static lease for each port, which answers no other card."""

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

from compute_drivers import metadata_pages, programs
from compute_drivers.host_net.anti_spoofing import SERVER
from compute_drivers.metadata_pages import MetadataPages
from conductor.core.compute_driver import NetworkPort, PortAddress
from conductor.core.errors import DriverError

START_FAILED = "The addresses of the network could not be served"
NOT_IN_HOST_NAMES = re.compile(r"[^A-Za-z0-9-]")
LEASE = "1d"
STOP_SECONDS = 5.0


@dataclass(frozen=True)
class Client:
    """A port, its guest's hostname, and the guest's metadata pages where they are known."""

    port: NetworkPort
    hostname: str
    pages: MetadataPages | None = field(default=None, compare=False)

    @property
    def leased(self) -> PortAddress | None:
        """The address that DHCP gives, the first IPv4 one; None for a port with IPv6 only."""
        return next((one for one in self.port.addresses if ":" not in one.ip_address), None)


def configuration(bridge: str, pid_file: Path, clients: Sequence[Client]) -> str:
    """Return dnsmasq's configuration with a static lease for each client."""
    lines = [
        "port=0",
        f"interface={bridge}",
        "except-interface=lo",
        "bind-interfaces",
        f"pid-file={pid_file}",
        "dhcp-authoritative",
        "leasefile-ro",
        "no-ping",
        "quiet-dhcp",
        "dhcp-no-override",
        "user=nobody",
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
    """Return the options of a subnet. An option without a value is not sent; without the line dnsmasq names itself."""
    router = _ipv4_of(address.gateway_ip)
    on_link = (one for service in (SERVER, metadata_pages.ADDRESS) for one in (f"{service}/32", "0.0.0.0"))
    routes = [*on_link, *(one for gateway in router for one in ("0.0.0.0/0", gateway))]
    return [
        ",".join(["option:router", *router]),
        ",".join(["option:dns-server", *_ipv4_of(*address.dns_nameservers)]),
        # Clients that use these routes ignore the router option, so the default route is repeated here.
        ",".join(["option:classless-static-route", *routes]),
    ]


def _ipv4_of(*addresses: str) -> list[str]:
    """Return the valid IPv4 addresses; nothing else may get into the configuration."""
    found = []
    for address in addresses:
        with suppress(ValueError):
            found.append(str(IPv4Address(address)))
    return found


class DhcpServer:
    """One process for one bridge. It outlives the agent and is found by its pid file."""

    def __init__(self, folder: Path, bridge: str) -> None:
        self._bridge = bridge
        self._settings = folder / f"{bridge}.dnsmasq"
        self._pid_file = folder / f"{bridge}.pid"

    def serve(self, clients: Sequence[Client]) -> None:
        """Serve these clients; a server with the same configuration keeps running. Raises DriverError."""
        settings = configuration(self._bridge, self._pid_file, clients)
        if self._pid() is not None and self._settings.read_text() == settings:
            return
        self.stop()
        self._settings.write_text(settings)
        # It forks to the background once it listens, so errors are reported here.
        programs.check_output(START_FAILED, "dnsmasq", f"--conf-file={self._settings}")

    def stop(self) -> None:
        """Stop the server and remove its files. Raises DriverError when it does not end."""
        pid = self._pid()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + STOP_SECONDS
            while self._pid() is not None:
                if time.monotonic() > deadline:
                    raise DriverError("The DHCP server of a network does not end.")
                time.sleep(0.005)
        for path in (self._settings, self._pid_file):
            path.unlink(missing_ok=True)

    def _pid(self) -> int | None:
        """Return the pid; None where the server does not run and the number may belong to another process."""
        try:
            pid = int(self._pid_file.read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(self._settings) in words else None
