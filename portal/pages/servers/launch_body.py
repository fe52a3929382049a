"""The launch form's request: as the API's body, as an InstanceCreate, and as a command."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from conductor.services.servers.types import InstanceCreate
from portal.api.compute.microversions import VERSIONS
from portal.api.compute.representations import server_requests
from portal.api.compute.schemas import servers as schemas
from portal.api.validation import validate

AUTO_NETWORK = "auto"
NO_NETWORK = "none"
NAMELESS = "NAME"
ANSWER = "form:"  # prefix of the hint for a plugin's question
HINTS = "os:scheduler_hints"


@dataclass(frozen=True)
class LaunchFormValues:
    """The form's values, as strings. `boot_volume` replaces an image; `volume` is in addition to the root disk."""

    name: str = ""
    count: str = "1"
    image: str = ""
    boot_volume: str = ""
    flavor: str = ""
    network: str = ""
    key: str = ""
    zone: str = ""
    group: str = ""
    security_group: str = ""
    volume: str = ""
    tags: str = ""
    user_data: str = ""
    once: str = ""
    # answers to plugins' questions, by the hint of each question
    answers: Mapping[str, str] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The number of servers; 0 for an invalid number."""
        return int(self.count) if self.count.isascii() and self.count.isdigit() and len(self.count) < 6 else 0


# The API's name of a field in an error → the form's name.
FIELDS: Mapping[str, str] = {
    "name": "name", "min_count": "count", "max_count": "count", "count": "count", "imageRef": "image", "image": "image",
    "image_ref": "image", "flavorRef": "flavor", "flavor": "flavor", "flavor_ref": "flavor", "networks": "networks",
    "network": "networks", "key_name": "key", "availability_zone": "zone", "group": "group",
    "security_groups": "security_group", "user_data": "user_data", "tags": "tags",
    "block_device_mapping_v2": "volume",
}  # fmt: skip


def field_of(path: str) -> str:
    """Return the form's field that an error is about; empty for the whole form."""
    if path.startswith(f"{HINTS}.{ANSWER}"):
        return path.removeprefix(f"{HINTS}.")
    parts = [part for part in re.split(r"[.\[\]]", path) if part and not part.isdigit()]
    return next((FIELDS[part] for part in parts if part in FIELDS), "")


def body_of(form: LaunchFormValues) -> dict[str, Any]:
    """POST /compute/v2.1/servers."""
    server: dict[str, Any] = {"name": form.name or NAMELESS, "flavorRef": form.flavor}
    server |= {"imageRef": form.image} if form.image and not form.boot_volume else {}
    if form.network in (AUTO_NETWORK, NO_NETWORK, ""):
        server["networks"] = form.network or AUTO_NETWORK
    else:
        server["networks"] = [{"uuid": form.network}]
    server |= {"key_name": form.key} if form.key else {}
    server |= {"availability_zone": form.zone} if form.zone else {}
    server |= {"security_groups": [{"name": form.security_group}]} if form.security_group else {}
    server |= {"tags": form.tags.replace(",", " ").split()} if form.tags.strip() else {}
    server |= {"user_data": base64.b64encode(form.user_data.encode()).decode()} if form.user_data else {}
    server |= {"min_count": form.number, "max_count": form.number} if form.number > 1 else {}
    devices = _devices(form)
    server |= {"block_device_mapping_v2": devices} if devices else {}
    hints = ({"group": form.group} if form.group else {}) | dict(form.answers)
    return {"server": server, **({HINTS: hints} if hints else {})}


def _devices(form: LaunchFormValues) -> list[dict[str, Any]]:
    shared = {"source_type": "volume", "destination_type": "volume", "delete_on_termination": False}
    devices: list[dict[str, Any]] = []
    if form.boot_volume:
        devices.append({"uuid": form.boot_volume, "boot_index": 0, **shared})
    elif form.volume and form.image:
        root = {"source_type": "image", "destination_type": "local", "delete_on_termination": True}
        devices.append({"uuid": form.image, "boot_index": 0, **root})
    if form.volume:
        devices.append({"uuid": form.volume, "boot_index": -1, **shared})
    return devices


def instance_create_of(form: LaunchFormValues) -> InstanceCreate:
    """Return the body as the API parses it. Raises Invalid naming the field."""
    body = body_of(form)
    validate(body, schemas.create(VERSIONS.maximum))
    return replace(server_requests.instance_create(body), run_uuid=form.once)


def body_text(form: LaunchFormValues) -> str:
    """Return the body for display, without user data, which may hold secrets."""
    body = body_of(form)
    if "user_data" in body["server"]:
        body["server"]["user_data"] = "…"
    return json.dumps(body, indent=2, ensure_ascii=False)


def command(form: LaunchFormValues, image: str, flavor: str) -> str:
    """Return the shell command for the same launch."""
    words = ["openstack server create"]
    source = f"--volume {shlex.quote(form.boot_volume)}" if form.boot_volume else f"--image {shlex.quote(image)}"
    words += [source, f"--flavor {shlex.quote(flavor)}"]
    if form.network in (AUTO_NETWORK, NO_NETWORK, ""):
        words.append("--nic none" if form.network == NO_NETWORK else "--nic auto")
    else:
        words.append(f"--network {shlex.quote(form.network)}")
    named = {
        "--key-name": form.key,
        "--availability-zone": form.zone,
        "--security-group": form.security_group,
        "--hint": f"group={form.group}" if form.group else "",
        "--user-data": "FILE" if form.user_data else "",
        "--block-device": f"uuid={form.volume},source_type=volume" if form.volume else "",
    }
    words += [f"{flag} {shlex.quote(value)}" for flag, value in named.items() if value]
    words += [f"--hint {shlex.quote(f'{name}={text}')}" for name, text in form.answers.items()]
    words += [f"--tag {shlex.quote(tag)}" for tag in form.tags.replace(",", " ").split()]
    words += [f"--min {form.number} --max {form.number}"] if form.number > 1 else []
    return " \\\n  ".join([*words, shlex.quote(form.name or NAMELESS)])
