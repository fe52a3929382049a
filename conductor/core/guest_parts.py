"""What hangs on a guest: ports and volumes, as its driver needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conductor.core.plain_json import known_fields


@dataclass(frozen=True, slots=True)
class PortAddress:
    """One address of a port. `ipv6_mode` is how its guest comes by it: slaac, dhcpv6-stateful or dhcpv6-stateless.

    With "" an IPv6 address is the guest's own affair. `cidr` is "" where an earlier release told only the address.
    """

    ip_address: str
    cidr: str = ""
    gateway_ip: str = ""
    dns_nameservers: tuple[str, ...] = ()
    ipv6_mode: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PortAddress:
        return cls(**{**known_fields(cls, data), "dns_nameservers": tuple(data.get("dns_nameservers", ()))})


@dataclass(frozen=True, slots=True)
class NetworkPort:
    """One plugged port: addresses are texts, and all from `ip_address` to `dns_nameservers` is of the first one.

    `network_uuid` is empty where an earlier release plugged it. `ipv6_mode` is the first address's, `more` are the
    others.
    """

    port_uuid: str
    network_name: str
    mac_address: str
    ip_address: str
    prefix_length: int
    cidr: str
    gateway_ip: str = ""
    dns_nameservers: tuple[str, ...] = ()
    network_uuid: str = ""
    ipv6_mode: str = ""
    more: tuple[PortAddress, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NetworkPort:
        """A port as a message carries it; fields that a newer sender added are dropped."""
        values = {**known_fields(cls, data), "dns_nameservers": tuple(data.get("dns_nameservers", ()))}
        return cls(**{**values, "more": tuple(PortAddress.from_json(told) for told in data.get("more", ()))})

    @property
    def addresses(self) -> tuple[PortAddress, ...]:
        """All of them; none where the port has none."""
        if not self.ip_address:
            return ()
        first = PortAddress(self.ip_address, self.cidr, self.gateway_ip, self.dns_nameservers, self.ipv6_mode)
        return (first, *self.more)


@dataclass(frozen=True, slots=True)
class VolumeConnection:
    """One volume of a guest: where its data is and how the guest sees it.

    `path` is a file or block device that the host can open. `boot_index` 0 is the root disk, -1 is no boot device.
    Several guests may have one that `is_shared` at the same time: nothing of it is locked or kept in a cache.
    """

    volume_uuid: str
    path: str
    size_gb: int
    disk_format: str = "raw"
    device_name: str = ""
    boot_index: int = -1
    is_read_only: bool = False
    serial: str = ""
    is_shared: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> VolumeConnection:
        """A volume as a message carries it; fields that a newer sender added are dropped."""
        return cls(**known_fields(cls, data))
