"""A guest's metadata, keys, password and user data as the files that cloud-init reads."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from conductor.core.compute_driver import GuestSpec, NetworkPort, PortAddress
from conductor.core.errors import BuildAborted

# The newest supported version of the OpenStack layout; `latest` is the same.
VERSION = "2018-08-27"
EC2_VERSION = "2009-04-04"
KEY_NAME = "default"


def metadata_files(
    guest: GuestSpec, password: str = "", vendor_data: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, bytes]:
    """Return the files by path, in OpenStack's and EC2's layout.

    Args:
        password: The administrator's password, "" for none.
        vendor_data: Metadata from the operator of the host.

    Raises:
        BuildAborted: User data or files are not base64.
    """
    user_data = _user_data(guest)
    openstack = {
        "meta_data.json": _json(_metadata(guest, password)),
        "network_data.json": _json(_network_data(guest.ports)),
        "vendor_data.json": _json(vendor_data),
        "vendor_data2.json": _json({"static": dict(vendor_data)} if vendor_data else {}),
    }
    ec2 = {"meta-data.json": _json(_ec2_metadata(guest))}
    if user_data:
        openstack["user_data"] = ec2["user-data"] = user_data
    kinds = (("openstack", VERSION, openstack), ("ec2", EC2_VERSION, ec2))
    contents = {f"openstack{_content_path(number)}": _decoded(file.contents) for number, file in enumerate(guest.files)}
    return contents | {
        f"{kind}/{folder}/{name}": data
        for kind, version, files in kinds
        for folder in ("latest", version)
        for name, data in files.items()
    }


def _metadata(guest: GuestSpec, password: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "uuid": guest.instance_uuid,
        "name": guest.name,
        "hostname": guest.hostname,
        "project_id": guest.project_id,
        "launch_index": 0,
        "meta": dict(guest.metadata),
        "devices": [],
        "random_seed": base64.b64encode(os.urandom(512)).decode(),
    }
    if guest.public_key:
        metadata["public_keys"] = {KEY_NAME: guest.public_key}
        metadata["keys"] = [{"name": KEY_NAME, "type": "ssh", "data": guest.public_key}]
    if guest.files:
        metadata["files"] = [
            {"path": file.path, "content_path": _content_path(number)} for number, file in enumerate(guest.files)
        ]
    if password:
        metadata["admin_pass"] = password
    return metadata


def _ec2_metadata(guest: GuestSpec) -> dict[str, Any]:
    addresses = [one.ip_address for port in guest.ports for one in port.addresses if ":" not in one.ip_address]
    metadata: dict[str, Any] = {
        "instance-id": f"i-{guest.instance_uuid.replace('-', '')[:8]}",
        "instance-type": guest.flavor.name,
        "hostname": guest.hostname,
        "local-hostname": guest.hostname,
        "local-ipv4": addresses[0] if addresses else "",
        "placement": {"availability-zone": "nova"},
        "ami-launch-index": 0,
        "security-groups": [],
        "block-device-mapping": {"ami": "vda", "root": "/dev/vda"},
    }
    if guest.public_key:
        metadata["public-keys"] = {"0": {"_name": f"0={KEY_NAME}", "openssh-key": guest.public_key}}
    return metadata


def _network_data(ports: tuple[NetworkPort, ...]) -> dict[str, Any]:
    """Return links by MAC address, with addresses that the guest also gets by DHCP."""
    links = [
        {"id": f"card{number}", "vif_id": port.port_uuid, "type": "phy", "ethernet_mac_address": port.mac_address}
        for number, port in enumerate(ports)
    ]
    listed = [(number, port, one) for number, port in enumerate(ports) for one in port.addresses]
    networks = [_network(index, number, port, one) for index, (number, port, one) in enumerate(listed)]
    servers = dict.fromkeys(server for _, _, one in listed for server in one.dns_nameservers)
    return {"links": links, "networks": networks, "services": [{"type": "dns", "address": one} for one in servers]}


def _network(index: int, number: int, port: NetworkPort, one: PortAddress) -> dict[str, Any]:
    network: dict[str, Any] = {
        "id": f"network{index}",
        "link": f"card{number}",
        "network_id": port.network_name,
        "type": _type_of(port, one),
        "ip_address": one.ip_address,
        "netmask": str(ipaddress.ip_network(one.cidr).netmask) if one.cidr else "",
        "routes": [],
    }
    if one.gateway_ip:
        default = "::" if ":" in one.gateway_ip else "0.0.0.0"
        network["routes"] = [{"network": default, "netmask": default, "gateway": one.gateway_ip}]
    return network


def _type_of(port: NetworkPort, one: PortAddress) -> str:
    """Return how the guest gets the address: its first IPv4 address by DHCP, further ones by itself."""
    if ":" in one.ip_address:
        return f"ipv6_{one.ipv6_mode}" if one.ipv6_mode else "ipv6"
    first = next(other for other in port.addresses if ":" not in other.ip_address)
    return "ipv4_dhcp" if one == first else "ipv4"


def _content_path(number: int) -> str:
    """Return the path of a file's contents below the folder `openstack`."""
    return f"/content/{number:04d}"


def _decoded(contents: str) -> bytes:
    try:
        return base64.b64decode(contents, validate=False)
    except (binascii.Error, ValueError):
        raise BuildAborted("A file of the guest is not base64.") from None


def _user_data(guest: GuestSpec) -> bytes:
    try:
        return base64.b64decode(guest.user_data, validate=False)
    except (binascii.Error, ValueError):
        raise BuildAborted("The user data are not base64.") from None


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(values), indent=1, sort_keys=True).encode()
