"""Parses a valid body of POST /servers into the InstanceCreate that the service checks."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
from collections.abc import Mapping, Sequence
from typing import Any

from conductor.core.compute_driver import GuestFile
from conductor.core.errors import Invalid
from conductor.services.servers.types import InstanceCreate, NetworkRequest
from portal.api.compute.representations import block_devices
from portal.api.validation import as_boolean

HINTS = ("os:scheduler_hints", "OS-SCH-HNT:scheduler_hints")


def without_nulls(body: Any) -> Any:
    """Return the body without null members of the server, which some clients send for members that they do not set."""
    if not isinstance(body, dict) or not isinstance(body.get("server"), dict):
        return body
    return {**body, "server": {name: value for name, value in body["server"].items() if value is not None}}


def instance_create(body: Mapping[str, Any]) -> InstanceCreate:
    """Return the request. Raises Invalid beyond the schema: counts, devices, user data, zones with hosts."""
    server = body["server"]
    image_ref = last_part(server.get("imageRef", ""))
    _refuse_what_is_not_offered(server)
    devices = block_devices.requests(server, image_ref)
    min_count = int(server.get("min_count", 1))
    max_count = int(server.get("max_count", min_count))
    if min_count > max_count:
        raise Invalid("min_count must be <= max_count", field="server.min_count")
    zone, _, rest = server.get("availability_zone", "").partition(":")
    forced_host, _, node = rest.partition(":")
    if rest and (server.get("host") or server.get("hypervisor_hostname")):
        raise Invalid("A host is named in availability_zone and once more: name it once.", field="server.host")
    return InstanceCreate(
        name=server["name"],
        flavor_ref=last_part(str(server["flavorRef"])),
        image_ref=block_devices.local_image(devices, image_ref),
        devices=devices,
        min_count=min_count,
        max_count=max_count,
        networks=_networks(server.get("networks", "auto")),
        key_name=server.get("key_name"),
        availability_zone=zone,
        scheduler_hints=_hints(body),
        metadata=server.get("metadata", {}),
        tags=tuple(dict.fromkeys(server.get("tags", ()))),
        description=server.get("description"),
        hostname=server.get("hostname", ""),
        user_data=checked_user_data(server.get("user_data"), "server"),
        files=checked_files(server.get("personality", ()), "server"),
        config_drive=as_boolean(server.get("config_drive", False), "server.config_drive"),
        disk_config=server.get("OS-DCF:diskConfig", "MANUAL"),
        access_ip_v4=server.get("accessIPv4", ""),
        access_ip_v6=plain_ip_v6(server.get("accessIPv6", "")),
        security_groups=tuple(group["name"] for group in server.get("security_groups", ()) if "name" in group),
        requested_host=server.get("host", ""),
        forced_host=forced_host,
        forced_node=node,
    )


def plain_ip_v6(address: str) -> str:
    """Return an IPv6 address in its canonical spelling."""
    return str(ipaddress.IPv6Address(address)) if address else ""


def last_part(ref: str) -> str:
    """Return the last part of a URL: old clients name images and flavors by their address."""
    return ref.rstrip("/").rpartition("/")[2]


def _refuse_what_is_not_offered(server: Mapping[str, Any]) -> None:
    if server.get("trusted_image_certificates"):
        raise Invalid(
            "No host verifies signatures of images: leave the certificates out.",
            field="server.trusted_image_certificates",
        )


def _networks(wanted: Any) -> tuple[NetworkRequest, ...] | None:
    if wanted == "auto" or wanted == []:
        return None
    if wanted == "none":
        return ()
    return tuple(_network(number, network) for number, network in enumerate(wanted))


def _network(number: int, network: Mapping[str, Any]) -> NetworkRequest:
    field = f"server.networks[{number}]"
    port, uuid, fixed_ip = (network.get(name) or "" for name in ("port", "uuid", "fixed_ip"))
    if not port and not uuid:
        raise Invalid(f"Field {field}: name a network by uuid or a port.", field=field)
    if port and fixed_ip:
        raise Invalid(f"Specified Fixed IP '{fixed_ip}' cannot be used with port '{port}'.", field=field)
    return NetworkRequest(network_id="" if port else uuid, port_id=port, fixed_ip=fixed_ip, tag=network.get("tag"))


def _hints(body: Mapping[str, Any]) -> dict[str, list[str]]:
    hints: dict[str, Any] = {}
    for name in HINTS:
        hints |= body.get(name, {})
    query = hints.get("query", "")
    if not isinstance(query, str):  # clients may send the query as JSON instead of as text
        hints["query"] = json.dumps(query)
    return {name: _words(value) for name, value in hints.items()}


def _words(value: Any) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else [str(value)]


def checked_user_data(text: str | None, where: str) -> str | None:
    """Return user data unchanged. Raises Invalid unless it is base64."""
    if text is None:
        return None
    _require_base64(text, f"{where}.user_data")
    return text


def checked_files(given: Sequence[Mapping[str, str]], where: str) -> tuple[GuestFile, ...]:
    """Return the files of `personality`. Raises Invalid unless their contents are base64."""
    for number, file in enumerate(given):
        _require_base64(file["contents"], f"{where}.personality[{number}].contents")
    return tuple(GuestFile(file["path"], "".join(file["contents"].split())) for file in given)


def _require_base64(text: str, field: str) -> None:
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise Invalid(
            f"Invalid input for field/attribute {field}. It must be encoded in base64.", field=field
        ) from None
