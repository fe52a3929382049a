"""What a guest can read about itself: metadata, keys, password and user data, in the files that cloud-init knows."""

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

# The newest version of the layout that is spoken; `latest` is the same.
VERSION = "2018-08-27"
EC2_VERSION = "2009-04-04"
KEY_NAME = "default"


def files_of(
    guest: GuestSpec, password: str = "", vendor_data: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, bytes]:
    """All of it, by path; `vendor_data` are of whoever runs the host.

    Raises BuildAborted for user data or files that are not base64.
    """
    user_data = _user_data(guest)
    openstack = {
        "meta_data.json": _json(_metadata(guest, password)),
        "network_data.json": _json(_network_data(guest.ports)),
        "vendor_data.json": _json(vendor_data),
        "vendor_data2.json": _json({"static": dict(vendor_data)} if vendor_data else {}),
    }
    amazon = {"meta-data.json": _json(_ec2_metadata(guest))}
    if user_data:
        openstack["user_data"] = amazon["user-data"] = user_data
    kinds = (("openstack", VERSION, openstack), ("ec2", EC2_VERSION, amazon))
    contents = {f"openstack{_place(number)}": _decoded(file.contents) for number, file in enumerate(guest.files)}
    return contents | {
        f"{kind}/{folder}/{name}": data
        for kind, version, files in kinds
        for folder in ("latest", version)
        for name, data in files.items()
    }


def _metadata(guest: GuestSpec, password: str) -> dict[str, Any]:
    said: dict[str, Any] = {
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
        said["public_keys"] = {KEY_NAME: guest.public_key}
        said["keys"] = [{"name": KEY_NAME, "type": "ssh", "data": guest.public_key}]
    if guest.files:
        said["files"] = [{"path": file.path, "content_path": _place(number)} for number, file in enumerate(guest.files)]
    if password:
        said["admin_pass"] = password
    return said


def _ec2_metadata(guest: GuestSpec) -> dict[str, Any]:
    addresses = [one.ip_address for port in guest.ports for one in port.addresses if ":" not in one.ip_address]
    said: dict[str, Any] = {
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
        said["public-keys"] = {"0": {"_name": f"0={KEY_NAME}", "openssh-key": guest.public_key}}
    return said


def _network_data(ports: tuple[NetworkPort, ...]) -> dict[str, Any]:
    """Links by MAC; the addresses come by DHCP and are said all the same."""
    links = [
        {"id": f"card{number}", "vif_id": port.port_uuid, "type": "phy", "ethernet_mac_address": port.mac_address}
        for number, port in enumerate(ports)
    ]
    told = [(number, port, one) for number, port in enumerate(ports) for one in port.addresses]
    networks = [_network(index, number, port, one) for index, (number, port, one) in enumerate(told)]
    servers = dict.fromkeys(server for _, _, one in told for server in one.dns_nameservers)
    return {"links": links, "networks": networks, "services": [{"type": "dns", "address": one} for one in servers]}


def _network(index: int, number: int, port: NetworkPort, one: PortAddress) -> dict[str, Any]:
    said: dict[str, Any] = {
        "id": f"network{index}",
        "link": f"card{number}",
        "network_id": port.network_name,
        "type": _type_of(port, one),
        "ip_address": one.ip_address,
        "netmask": str(ipaddress.ip_network(one.cidr).netmask) if one.cidr else "",
        "routes": [],
    }
    if one.gateway_ip:
        nowhere = "::" if ":" in one.gateway_ip else "0.0.0.0"
        said["routes"] = [{"network": nowhere, "netmask": nowhere, "gateway": one.gateway_ip}]
    return said


def _type_of(port: NetworkPort, one: PortAddress) -> str:
    """How the guest comes by it: one address of IPv4 by DHCP, further ones and what nobody tells by itself."""
    if ":" in one.ip_address:
        return f"ipv6_{one.ipv6_mode}" if one.ipv6_mode else "ipv6"
    first = next(other for other in port.addresses if ":" not in other.ip_address)
    return "ipv4_dhcp" if one == first else "ipv4"


def _place(number: int) -> str:
    """Where the contents of a file lie, below the folder of OpenStack."""
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


def _json(said: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(said), indent=1, sort_keys=True).encode()
