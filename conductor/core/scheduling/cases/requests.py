"""Converts the requests of a case to request specifications."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from conductor.core.errors import Invalid
from conductor.core.hardware.derive import with_hardware
from conductor.core.image_values import unreadable_in
from conductor.core.request_spec import FlavorSpec, ImageSpec, RequestSpec
from conductor.core.scheduling.cases.fleet import Fleet, uuid_of

PROJECT = "project"
USER = "user"
GROUP_HINT = "group"


def uuids_of(request: Mapping[str, Any]) -> list[str]:
    """Return the uuids of the instances to place: the given ones, or as many as are requested."""
    named = request.get("instance_uuids")
    if named:
        return list(named)
    return [uuid_of("instance", request["name"], str(number)) for number in range(request.get("num_instances") or 1)]


def spec_of(request: Mapping[str, Any], fleet: Fleet, config: Mapping[str, Any]) -> RequestSpec:
    """Return the request specification. Raises Invalid where flavor and image contradict, or cannot be read."""
    unreadable = unreadable_in((request.get("image") or {}).get("properties") or {})
    if unreadable:
        raise Invalid(f"{unreadable}.")
    given = {key: value for key, value in request.items() if value is not None}
    uuids = uuids_of(request)
    destination = {key: value for key, value in given.get("destination", {}).items() if value is not None}
    group = fleet.groups.get(given.get("group", ""))
    hints = {str(name): _words(f"hints.{name}", value) for name, value in given.get("hints", {}).items()}
    is_rebuild = given.get("check_type") == "rebuild"
    spec = RequestSpec(
        project_id=given.get("project_id", PROJECT),
        user_id=USER,
        flavor=_flavor(given["flavor"]),
        image=_image(given.get("image", {})),
        num_instances=len(uuids),
        availability_zone=given.get("az", ""),
        scheduler_hints=hints if group is None else {GROUP_HINT: [group.group_uuid], **hints},
        group=group,
        instance_hosts=fleet.instance_hosts,
        ignore_hosts=tuple(given.get("ignore_hosts", ())),
        force_hosts=tuple(given.get("force_hosts", ())),
        force_nodes=tuple(given.get("force_nodes", ())),
        requested_host=destination.get("host", ""),
        requested_node=_node(destination, is_rebuild=is_rebuild),
        requested_cell=destination.get("cell", ""),
        allows_cross_cell_move=destination.get("allow_cross_cell_move", False),
        is_volume_backed=given.get("bfv", False),
        is_rebuild=is_rebuild,
        instance_uuid=uuids[0],
    )
    return with_hardware(spec, config)


def without_zone(spec: RequestSpec) -> RequestSpec:
    """Drop the zone: in a case the aggregates of that name implement it, and no other check does."""
    return replace(spec, availability_zone="")


def _node(destination: Mapping[str, Any], *, is_rebuild: bool) -> str:
    """Return the node that the request names. A rebuilt server stays on its host, so a node alone is ignored."""
    return "" if is_rebuild and not destination.get("host") else str(destination.get("node", ""))


def _flavor(data: Mapping[str, Any]) -> FlavorSpec:
    given = {key: value for key, value in data.items() if value is not None}
    return FlavorSpec(
        flavor_id=given.get("name", "flavor"),
        name=given.get("name", "flavor"),
        vcpus=given["vcpus"],
        memory_mb=given["ram_mb"],
        root_gb=given.get("disk_gb", 0),
        ephemeral_gb=given.get("ephemeral_gb", 0),
        swap_mb=given.get("swap_mb", 0),
        extra_specs={str(key): str(value) for key, value in given.get("extra_specs", {}).items()},
    )


def _image(data: Mapping[str, Any]) -> ImageSpec:
    return ImageSpec(
        image_id=data.get("id") or "",
        disk_format=data.get("disk_format") or "",
        properties=dict(data.get("properties") or {}),
    )


def _words(key: str, value: Any) -> list[str]:
    words = value if isinstance(value, list) else [value]
    if not all(isinstance(word, str | int | float) for word in words):
        raise Invalid(f"{key}: {json.dumps(value):.60} is neither a text nor a list of texts.")
    return [str(word) for word in words]
