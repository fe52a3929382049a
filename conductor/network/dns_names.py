"""DNS names of ports: a port's own name, or else its guest's hostname, in the domain of its network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conductor.network.models import Network, Port

DEFAULT_DOMAIN = "openstacklocal."  # the network service's default, which clients know
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST = 253


def usable(hostname: str) -> str:
    """Return a hostname in lower case; "" if it is no valid DNS name."""
    name = hostname.lower()
    return name if len(name) <= _LONGEST and _NAME.fullmatch(name) else ""


def name_of(port: Port) -> str:
    """Return the DNS name of a port, or else its guest's hostname; "" for neither."""
    return port.dns_name or port.guest_hostname


def domain_of(network: Network) -> str:
    """Return the domain of a network, with a dot at its end."""
    return network.dns_domain or DEFAULT_DOMAIN


def assignments(port: Port) -> list[dict[str, str]]:
    """Return the names of a port's addresses, in the API's form. Without a name, they are made from the address."""
    return [
        {
            "hostname": (hostname := name_of(port) or f"host-{re.sub('[.:]', '-', held.ip_address)}"),
            "ip_address": held.ip_address,
            "fqdn": f"{hostname}.{domain_of(port.network)}",
        }
        for held in sorted(port.addresses.all(), key=lambda address: address.pk)
    ]
