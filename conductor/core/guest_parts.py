"""What hangs on a guest: ports and volumes, as its driver needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


def known_fields(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """What `cls` knows of a message's fields: a newer sender may have added some."""
    names = {item.name for item in fields(cls)}
    return {name: value for name, value in data.items() if name in names}


@dataclass(frozen=True, slots=True)
class NetworkPort:
    """One plugged port: addresses are texts, `prefix_length` belongs to the first subnet.

    `network_uuid` is empty where an earlier release plugged it.
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

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NetworkPort:
        """A port as a message carries it; fields that a newer sender added are dropped."""
        return cls(**{**known_fields(cls, data), "dns_nameservers": tuple(data.get("dns_nameservers", ()))})


@dataclass(frozen=True, slots=True)
class VolumeConnection:
    """One volume of a guest: where its data is and how the guest sees it.

    `path` is a file or block device that the host can open. `boot_index` 0 is the root disk, -1 is no boot device.
    """

    volume_uuid: str
    path: str
    size_gb: int
    disk_format: str = "raw"
    device_name: str = ""
    boot_index: int = -1
    is_read_only: bool = False
    serial: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> VolumeConnection:
        """A volume as a message carries it; fields that a newer sender added are dropped."""
        return cls(**known_fields(cls, data))
