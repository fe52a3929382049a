"""Host names and addresses by which clients may reach this machine."""

from __future__ import annotations

import ipaddress
import re
import socket
from pathlib import Path

IPV4_ROUTES = Path("/proc/net/fib_trie")
IPV6_ADDRESSES = Path("/proc/net/if_inet6")
_IPV4_LOCAL = re.compile(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL")


def every_name() -> tuple[str, ...]:
    """Return the host name, short and full, and the address of each interface; IPv6 ones in brackets, as in URLs."""
    name = socket.gethostname().lower()
    return tuple(dict.fromkeys((name, name.partition(".")[0], *_ipv4_addresses(), *_ipv6_addresses())))


def _ipv4_addresses() -> list[str]:
    return sorted(set(_IPV4_LOCAL.findall(IPV4_ROUTES.read_text()))) if IPV4_ROUTES.exists() else []


def _ipv6_addresses() -> list[str]:
    lines = IPV6_ADDRESSES.read_text().splitlines() if IPV6_ADDRESSES.exists() else []
    return sorted(f"[{ipaddress.IPv6Address(int(line.split()[0], 16))}]" for line in lines)
