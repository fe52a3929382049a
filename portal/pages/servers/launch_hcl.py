"""The same launch as a resource of Terraform's (and OpenTofu's) OpenStack provider."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from portal.pages.servers.launch_body import AUTO_NETWORK, HINTS, NAMELESS, NO_NETWORK, LaunchFormValues, body_of

INDENT = "  "
NO_LETTER = re.compile(r"[^A-Za-z0-9_-]")


def terraform(form: LaunchFormValues) -> str:
    """Return the resource; user data is left to a file, as it may hold secrets."""
    body = body_of(form)
    lines = [f"resource {_text('openstack_compute_instance_v2')} {_text(_label(form.name or NAMELESS))} {{"]
    lines += [INDENT + line for line in _aligned(_arguments(body["server"], form))]
    for name, block in _blocks(body):
        lines += ["", f"{INDENT}{name} {{", *(INDENT * 2 + line for line in _aligned(block)), f"{INDENT}}}"]
    return "\n".join([*lines, "}"])


def _arguments(server: Mapping[str, Any], form: LaunchFormValues) -> dict[str, str]:
    settings: dict[str, str] = {}
    if form.number > 1:
        settings["count"] = str(form.number)
    settings["name"] = _text(server["name"])
    if form.number > 1:
        settings["name"] = settings["name"][:-1] + '-${count.index + 1}"'
    plain = {"image_id": "imageRef", "flavor_id": "flavorRef", "key_pair": "key_name"}
    settings |= {ours: _text(server[theirs]) for ours, theirs in plain.items() if theirs in server}
    if "availability_zone" in server:
        settings["availability_zone"] = _text(server["availability_zone"])
    if "security_groups" in server:
        settings["security_groups"] = _texts(one["name"] for one in server["security_groups"])
    if "tags" in server:
        settings["tags"] = _texts(server["tags"])
    if form.user_data:
        settings["user_data"] = 'file("FILE")'
    if server["networks"] in (AUTO_NETWORK, NO_NETWORK):
        settings["network_mode"] = _text(server["networks"])
    return settings


def _blocks(body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    server = body["server"]
    if isinstance(server["networks"], list):
        for one in server["networks"]:
            yield "network", {"uuid": _text(one["uuid"])}
    for device in server.get("block_device_mapping_v2", ()):
        yield "block_device", {name: _value(value) for name, value in device.items()}
    hints = dict(body.get(HINTS, {}))
    if hints:
        settings = {"group": _text(hints.pop("group"))} if "group" in hints else {}
        if hints:
            pairs = ", ".join(f"{_text(name)} = {_text(value)}" for name, value in hints.items())
            settings["additional_properties"] = f"{{ {pairs} }}"
        yield "scheduler_hints", settings


def _aligned(arguments: Mapping[str, str]) -> list[str]:
    """Align arguments like `terraform fmt`."""
    width = max(map(len, arguments), default=0)
    return [f"{name:{width}} = {value}" for name, value in arguments.items()]


def _label(name: str) -> str:
    """Return a valid name of a Terraform resource."""
    label = NO_LETTER.sub("_", name)
    return label if label[:1].isalpha() or label[:1] == "_" else f"_{label}"


def _value(value: Any) -> str:
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _texts(values: Any) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _text(text: str) -> str:
    """Quote a string, and escape template sequences."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")
