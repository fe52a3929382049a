"""Bodies of requests about servers, per version."""

from __future__ import annotations

from functools import cache

from portal.api.microversions import Microversion
from portal.api.schema_parts import BOOLEAN, NAME, Schema, closed, wrapped

LONGEST_USER_DATA = 65535
IMAGE_REF: Schema = {
    "type": "string",
    "maxLength": 512,
    "pattern": r"^$|^(.*/)?[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$",
    "x-fix": "It must be the uuid of an image.",
}
FLAVOR_REF: Schema = {"type": ["string", "integer"], "minLength": 1, "maxLength": 512}
METADATA_KEY = r"^[a-zA-Z0-9-_:. ]{1,255}$"
METADATA: Schema = {
    "type": "object",
    "patternProperties": {METADATA_KEY: {"type": "string", "maxLength": 255}},
    "additionalProperties": False,
}
TAG: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 60,
    "pattern": r"^[^,/]*$",
    "x-fix": "It must have 1 to 60 characters, without commas and slashes.",
}
TAGS: Schema = {"type": "array", "items": TAG, "maxItems": 50}
COUNT: Schema = {"type": ["integer", "string"], "pattern": "^[1-9][0-9]{0,3}$", "minimum": 1, "maximum": 9999}
DISK_CONFIG: Schema = {"enum": ["AUTO", "MANUAL"]}
ACCESS_IP_V4: Schema = {"anyOf": [{"type": "string", "format": "ipv4"}, {"enum": ["", None]}]}
ACCESS_IP_V6: Schema = {"anyOf": [{"type": "string", "format": "ipv6"}, {"enum": ["", None]}]}
DESCRIPTION: Schema = {
    "type": ["string", "null"],
    "maxLength": 255,
    "pattern": r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f]*$",
}
HOST: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9-._]*$"}
HOSTNAME: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 63,
    "pattern": r"^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$",
    "x-fix": "It must have 1 to 63 letters, digits and dashes, without a dash at either end.",
}
FQDN: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^[a-zA-Z0-9]([a-zA-Z0-9-.]*[a-zA-Z0-9])?$",
    "x-fix": "It must have 1 to 255 letters, digits, dashes and dots, and begin and end with a letter or digit.",
}
ZONE: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
UUID: Schema = {"type": "string", "format": "uuid"}
NULLABLE_UUID: Schema = {"anyOf": [UUID, {"type": "null"}]}

CERTIFICATES: Schema = {
    "type": ["array", "null"],
    "items": {"type": "string", "minLength": 1, "maxLength": 255},
    "minItems": 1,
    "maxItems": 50,
    "uniqueItems": True,
    "x-fix": "It must be null, or 1 to 50 ids of certificates, each once.",
}
FILES: Schema = {
    "type": "array",
    "items": closed(
        {
            "path": {"type": "string", "minLength": 1, "maxLength": 4095, "pattern": r"^[^\u0000-\u001f\u007f]*$"},
            "contents": {"type": "string"},
        },
        required=("path", "contents"),
    ),
}

_DEVICE: Schema = {
    "boot_index": {"type": ["integer", "string", "null"]},
    "source_type": {"enum": ["image", "snapshot", "volume", "blank"]},
    "destination_type": {"enum": ["local", "volume", None]},
    "uuid": {"type": ["string", "null"], "maxLength": 255},
    "image_id": NULLABLE_UUID,
    "volume_size": {"type": ["integer", "string", "null"]},
    "delete_on_termination": BOOLEAN,
    "device_name": {"type": ["string", "null"], "maxLength": 255},
    "device_type": {"type": ["string", "null"], "maxLength": 255},
    "disk_bus": {"type": ["string", "null"], "maxLength": 255},
    "guest_format": {"type": ["string", "null"], "maxLength": 255},
    "no_device": {},
}


def _has_device_tags(version: Microversion) -> bool:
    return version.covers("2.32", "2.36") or version.covers("2.42")


def _network(version: Microversion) -> Schema:
    members: Schema = {
        "uuid": NULLABLE_UUID,
        "port": NULLABLE_UUID,
        "fixed_ip": {"anyOf": [{"type": "string", "format": "ip"}, {"type": "null"}]},
    }
    if _has_device_tags(version):
        members["tag"] = TAG
    return closed(members)


def _networks(version: Microversion) -> Schema:
    several = {"type": "array", "items": _network(version), "maxItems": 64}
    if not version.covers("2.37"):
        return several
    if not version.covers("2.42"):
        return {"anyOf": [several, {"enum": ["auto", "none"]}]}
    return {"anyOf": [several, {"enum": ["auto", "none"]}], "x-fix": "It must be a list of networks, 'auto' or 'none'."}


def _device(version: Microversion) -> Schema:
    members = dict(_DEVICE)
    if version.covers("2.32"):
        members["tag"] = TAG
    if version.covers("2.67"):
        members["volume_type"] = {"type": ["string", "null"], "maxLength": 255}
    return closed(members)


HINTS: Schema = {
    "type": "object",
    "properties": {
        "group": UUID,
        "same_host": {"anyOf": [UUID, {"type": "array", "items": UUID, "maxItems": 100}]},
        "different_host": {"anyOf": [UUID, {"type": "array", "items": UUID, "maxItems": 100}]},
        "query": {"type": ["string", "object", "array"]},
        "target_cell": {"type": "string", "minLength": 1, "maxLength": 255},
        "different_cell": {
            "type": ["string", "array"],
            "items": {"type": "string", "maxLength": 255},
            "maxLength": 255,
        },
        "build_near_host_ip": {"type": "string", "format": "ip"},
        "cidr": {"type": "string", "pattern": r"^/[0-9a-f.:]+$"},
    },
    # Plugins may define hints of their own.
    "additionalProperties": {
        "type": ["string", "number", "boolean", "array"],
        "maxLength": 255,
        "maxItems": 100,
        "items": {"type": "string", "maxLength": 255},
    },
    "maxProperties": 32,
}


@cache
def create(version: Microversion) -> Schema:
    """POST /servers."""
    members: Schema = {
        "name": NAME,
        "imageRef": IMAGE_REF,
        "flavorRef": FLAVOR_REF,
        "adminPass": {"type": "string", "maxLength": 255},
        "metadata": METADATA,
        "networks": _networks(version),
        "OS-DCF:diskConfig": DISK_CONFIG,
        "accessIPv4": ACCESS_IP_V4,
        "accessIPv6": ACCESS_IP_V6,
        "availability_zone": ZONE,
        "block_device_mapping": {"type": "array", "items": {"type": "object"}, "maxItems": 255},
        "block_device_mapping_v2": {"type": "array", "items": _device(version), "maxItems": 255},
        "config_drive": BOOLEAN,
        "key_name": {"type": "string", "minLength": 1, "maxLength": 255},
        "min_count": COUNT,
        "max_count": COUNT,
        "return_reservation_id": BOOLEAN,
        "security_groups": {
            "type": "array",
            "items": closed({"name": {"type": "string", "minLength": 1, "maxLength": 255}}),
            "maxItems": 64,
        },
        "user_data": {"type": "string", "maxLength": LONGEST_USER_DATA},
    }
    members |= {name: schema for name, (first, last, schema) in _BY_VERSION.items() if version.covers(first, last)}
    if version.covers("2.94"):
        members["hostname"] = FQDN
    required = ("name", "flavorRef", "networks") if version.covers("2.37") else ("name", "flavorRef")
    return closed(
        {
            "server": closed(members, required=required),
            "os:scheduler_hints": HINTS,
            "OS-SCH-HNT:scheduler_hints": HINTS,
        },
        required=("server",),
    )


_BY_VERSION: dict[str, tuple[str, str | None, Schema]] = {
    "personality": ("2.1", "2.56", FILES),
    "description": ("2.19", None, DESCRIPTION),
    "tags": ("2.52", None, TAGS),
    "trusted_image_certificates": ("2.63", None, CERTIFICATES),
    "host": ("2.74", None, HOST),
    "hypervisor_hostname": ("2.74", None, HOST),
    "hostname": ("2.90", None, HOSTNAME),
}


@cache
def update(version: Microversion) -> Schema:
    """PUT /servers/{id}."""
    members: Schema = {
        "name": NAME,
        "OS-DCF:diskConfig": DISK_CONFIG,
        "accessIPv4": ACCESS_IP_V4,
        "accessIPv6": ACCESS_IP_V6,
    }
    if version.covers("2.19"):
        members["description"] = DESCRIPTION
    if version.covers("2.90"):
        members["hostname"] = FQDN if version.covers("2.94") else HOSTNAME
    if version.covers("2.104"):
        members["pinned_availability_zone"] = {"anyOf": [ZONE, {"type": "null"}]}
    return wrapped("server", members)


METADATA_BODY = closed({"metadata": METADATA}, required=("metadata",))
META_BODY = closed({"meta": {**METADATA, "minProperties": 1, "maxProperties": 1}}, required=("meta",))
TAGS_BODY = closed({"tags": TAGS}, required=("tags",))
CONSOLE_OUTPUT: Schema = {
    "anyOf": [
        {"type": "null"},
        closed(
            {
                "length": {
                    "anyOf": [
                        {"type": "integer", "minimum": -1, "maximum": 2**31 - 1},
                        {"type": "string", "pattern": "^(-1|[0-9]{1,9})$"},
                        {"type": "null"},
                    ]
                }
            }
        ),
    ],
    "x-fix": "`length` must be a number of lines, or -1 for all.",
}
