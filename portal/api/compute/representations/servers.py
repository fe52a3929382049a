"""JSON of servers: one table of fields, each with the versions and callers that see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from conductor.services.servers.filters import ROOT_DEVICE_NAME
from conductor.services.servers.types import InstanceData, LaunchResult
from portal.api.base import ApiRequest
from portal.api.compute.representations import parts
from portal.api.microversions import Microversion

LONGEST_FAULT = 255  # characters, as Nova's column has
PROGRESS_STATUSES = frozenset({"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"})
FAULT_STATUSES = frozenset({"ERROR", "DELETED"})
DOWN_CELLS_SINCE = "2.69"
WHOLE_UPDATE_SINCE = "2.75"


@dataclass(frozen=True)
class Server:
    """An instance, and the request and role that it is shown to."""

    view: InstanceData
    request: ApiRequest
    is_operator: bool  # sees hosts and other details of the infrastructure

    @property
    def version(self) -> Microversion:
        return self.request.microversion


def _volumes(server: Server) -> list[dict[str, Any]]:
    """Return volume ids; from 2.3 on with whether each is deleted with the server."""
    if not server.version.covers("2.3"):
        return [{"id": volume_id} for volume_id, _ in server.view.volumes]
    return [{"id": volume_id, "delete_on_termination": goes} for volume_id, goes in server.view.volumes]


@dataclass(frozen=True)
class ServerField:
    """A member of a server's JSON. `is_basic` members are in the answer to an update in every version."""

    name: str
    value: Callable[[Server], Any]
    since: str = "2.1"
    operators_until: str | None = None  # before this version only operators see it; "" means in every version
    is_basic: bool = False
    in_lists: bool = True
    when: Callable[[Server], bool] | None = None

    def is_for(self, version: Microversion, *, is_operator: bool) -> bool:
        """Return whether this version shows the member to such callers; `when` decides for each server."""
        if not version.covers(self.since):
            return False
        if self.operators_until is None or is_operator:
            return True
        return bool(self.operators_until) and version.covers(self.operators_until)


def _image(server: Server) -> Any:
    image = server.view.image
    if not image.image_id:
        return ""
    shown = {"id": image.image_id, "links": [parts.bookmark(server.request, "images", image.image_id)]}
    return {**shown, "properties": dict(image.properties)} if server.version.covers("2.98") else shown


def _hints(server: Server) -> dict[str, Any]:
    """Return the scheduler hints; a hint with one value is that value, not a list."""
    return {name: words[0] if len(words) == 1 else list(words) for name, words in server.view.scheduler_hints.items()}


def _flavor(server: Server) -> dict[str, Any]:
    flavor = server.view.flavor
    if not server.version.covers("2.47"):
        return {"id": flavor.flavor_id, "links": [parts.bookmark(server.request, "flavors", flavor.flavor_id)]}
    return {
        "original_name": flavor.name,
        "vcpus": flavor.vcpus,
        "ram": flavor.memory_mb,
        "disk": flavor.root_gb,
        "ephemeral": flavor.ephemeral_gb,
        "swap": flavor.swap_mb,
        "extra_specs": dict(flavor.extra_specs),
    }


def _fault(server: Server) -> dict[str, Any]:
    fault = server.view.fault
    assert fault is not None
    shown = {
        "code": fault.code,
        "message": fault.message[:LONGEST_FAULT],
        "created": parts.to_the_second(fault.created_at),
    }
    return {**shown, "details": fault.details} if server.is_operator and fault.details else shown


def addresses(view: InstanceData, *, is_extended: bool) -> dict[str, list[dict[str, Any]]]:
    """Return addresses by network name, in the order of the ports."""
    found: dict[str, list[dict[str, Any]]] = {}
    for port in view.addresses:
        kinds = [*((held, "fixed") for held in (port, *port.get("more", ()))), *_floating(port)]
        for held, kind in kinds:
            if not held["ip_address"]:
                continue
            entry: dict[str, Any] = {
                "version": 6 if ":" in held["ip_address"] else 4,
                "addr": held["ip_address"],
            }
            if is_extended:
                entry |= {"OS-EXT-IPS:type": kind, "OS-EXT-IPS-MAC:mac_addr": port["mac_address"]}
            found.setdefault(port["network_name"], []).append(entry)
    return found


def _floating(port: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    return [(held, "floating") for held in port.get("floating", ())]


def _links(server: Server) -> list[dict[str, str]]:
    return parts.links(server.request, "servers", server.view.uuid)


FIELDS: Sequence[ServerField] = (
    ServerField("id", lambda s: s.view.uuid, is_basic=True),
    ServerField("name", lambda s: s.view.name, is_basic=True),
    ServerField("status", lambda s: s.view.status, is_basic=True),
    ServerField("tenant_id", lambda s: s.view.project_id, is_basic=True),
    ServerField("user_id", lambda s: s.view.user_id, is_basic=True),
    ServerField("metadata", lambda s: dict(s.view.metadata), is_basic=True),
    ServerField("hostId", lambda s: parts.host_id(s.view.project_id, s.view.host), is_basic=True),
    ServerField("image", _image, is_basic=True),
    ServerField("flavor", _flavor, is_basic=True),
    ServerField("created", lambda s: parts.to_the_second(s.view.created_at), is_basic=True),
    ServerField("updated", lambda s: parts.to_the_second(s.view.updated_at), is_basic=True),
    ServerField("addresses", lambda s: addresses(s.view, is_extended=True), is_basic=True),
    ServerField("accessIPv4", lambda s: s.view.access_ip_v4, is_basic=True),
    ServerField("accessIPv6", lambda s: s.view.access_ip_v6, is_basic=True),
    ServerField("links", _links, is_basic=True),
    ServerField("OS-DCF:diskConfig", lambda s: s.view.disk_config, is_basic=True),
    ServerField("progress", lambda s: 0, is_basic=True, when=lambda s: s.view.status in PROGRESS_STATUSES),
    ServerField(
        "fault", _fault, is_basic=True, when=lambda s: s.view.status in FAULT_STATUSES and s.view.fault is not None
    ),
    ServerField("key_name", lambda s: s.view.key_name),
    ServerField("config_drive", lambda s: s.view.config_drive),
    ServerField(
        "security_groups",
        lambda s: [{"name": name} for name in s.view.security_groups],
        when=lambda s: bool(s.view.security_groups),
    ),
    ServerField("OS-EXT-AZ:availability_zone", lambda s: s.view.availability_zone),
    ServerField("OS-EXT-STS:task_state", lambda s: s.view.task_state),
    ServerField("OS-EXT-STS:vm_state", lambda s: s.view.vm_state),
    ServerField("OS-EXT-STS:power_state", lambda s: s.view.power_state),
    ServerField("OS-SRV-USG:launched_at", lambda s: parts.to_the_digit(s.view.launched_at)),
    ServerField("OS-SRV-USG:terminated_at", lambda s: parts.to_the_digit(s.view.terminated_at)),
    ServerField("os-extended-volumes:volumes_attached", _volumes),
    ServerField("OS-EXT-SRV-ATTR:host", lambda s: s.view.host or None, operators_until=""),
    ServerField("OS-EXT-SRV-ATTR:instance_name", lambda s: f"novella-{s.view.uuid}", operators_until=""),
    ServerField("OS-EXT-SRV-ATTR:hypervisor_hostname", lambda s: s.view.node or None, operators_until=""),
    ServerField("OS-EXT-SRV-ATTR:hostname", lambda s: s.view.hostname, since="2.3", operators_until="2.90"),
    ServerField(
        "OS-EXT-SRV-ATTR:kernel_id",
        lambda s: s.view.image.properties.get("kernel_id", ""),
        since="2.3",
        operators_until="",
    ),
    ServerField(
        "OS-EXT-SRV-ATTR:ramdisk_id",
        lambda s: s.view.image.properties.get("ramdisk_id", ""),
        since="2.3",
        operators_until="",
    ),
    ServerField("OS-EXT-SRV-ATTR:launch_index", lambda s: s.view.launch_index, since="2.3", operators_until=""),
    ServerField("OS-EXT-SRV-ATTR:reservation_id", lambda s: s.view.reservation_id, since="2.3", operators_until=""),
    ServerField(
        "OS-EXT-SRV-ATTR:root_device_name",
        lambda s: ROOT_DEVICE_NAME if s.view.host else None,
        since="2.3",
        operators_until="",
    ),
    ServerField("OS-EXT-SRV-ATTR:user_data", lambda s: s.view.user_data, since="2.3", operators_until=""),
    ServerField("locked", lambda s: s.view.is_locked, since="2.9", is_basic=True),
    ServerField("host_status", lambda s: s.view.host_status, since="2.16", operators_until=""),
    ServerField("description", lambda s: s.view.description, since="2.19", is_basic=True),
    ServerField("tags", lambda s: list(s.view.tags), since="2.26", is_basic=True),
    ServerField("trusted_image_certificates", lambda s: None, since="2.63", is_basic=True),
    ServerField(
        "server_groups",
        lambda s: [s.view.group_uuid] if s.view.group_uuid else [],
        since="2.71",
        is_basic=True,
        in_lists=False,
    ),
    ServerField("locked_reason", lambda s: s.view.locked_reason, since="2.73", is_basic=True),
    ServerField("pinned_availability_zone", lambda s: s.view.pinned_availability_zone or None, since="2.96"),
    ServerField("scheduler_hints", _hints, since="2.100"),
)


def _members(server: Server, *, in_lists: bool = False, is_basic: bool = False) -> dict[str, Any]:
    chosen = _chosen(server.version, server.is_operator, in_lists, is_basic)
    return {name: value(server) for name, value, when in chosen if when is None or when(server)}


@cache
def _chosen(version: Microversion, is_operator: bool, in_lists: bool, is_basic: bool) -> Sequence[tuple[Any, ...]]:
    """Return name, value and condition of each field in an answer: the same for every server of a list."""
    return [
        (field.name, field.value, field.when)
        for field in FIELDS
        if field.is_for(version, is_operator=is_operator)
        and (field.in_lists or not in_lists)
        and (field.is_basic or not is_basic)
    ]


def detail(server: Server) -> dict[str, Any]:
    """Return a server in a list with details."""
    if server.view.is_partial:
        return _partial(server)
    return _members(server, in_lists=True)


def show(server: Server) -> dict[str, Any]:
    """Return one server."""
    if server.view.is_partial:
        return _partial_with_request(server)
    return _members(server)


def updated(server: Server) -> dict[str, Any]:
    """Return a server in the answer to its update: with all members from 2.75 on."""
    if server.version.covers(WHOLE_UPDATE_SINCE):
        return show(server)
    shown = _members(server, is_basic=True)
    return shown | {"addresses": addresses(server.view, is_extended=False)}


def rebuilt(server: Server) -> dict[str, Any]:
    """Return a server in the answer to a rebuild: without the member for user data, which the view adds under
    another name.
    """
    shown = updated(server)
    shown.pop("OS-EXT-SRV-ATTR:user_data", None)
    return shown


def summary(server: Server) -> dict[str, Any]:
    """Return a server in a list without details."""
    view = server.view
    if view.is_partial:
        return {"id": view.uuid, "status": view.status, "links": _links(server)}
    return {"id": view.uuid, "name": view.name, "links": _links(server)}


def created(request: ApiRequest, launched: LaunchResult, body: Mapping[str, Any], admin_pass: str) -> dict[str, Any]:
    """Return the answer to a launch: the first server stands for all of them."""
    groups = [group for group in body.get("security_groups", []) if "name" in group] or [{"name": "default"}]
    shown = {
        "id": launched.instance_uuids[0],
        "links": parts.links(request, "servers", launched.instance_uuids[0]),
        "OS-DCF:diskConfig": body.get("OS-DCF:diskConfig") or "MANUAL",
        "adminPass": admin_pass,
    }
    return shown if body.get("networks") == "none" else {**shown, "security_groups": groups}


def _partial(server: Server) -> dict[str, Any]:
    view = server.view
    return {
        "id": view.uuid,
        "status": view.status,
        "tenant_id": view.project_id,
        "created": parts.to_the_second(view.created_at),
        "links": _links(server),
    }


def _partial_with_request(server: Server) -> dict[str, Any]:
    return {
        **_partial(server),
        "user_id": server.view.user_id,
        "image": _image(server),
        "flavor": _flavor(server),
        "OS-EXT-AZ:availability_zone": server.view.availability_zone,
        "OS-EXT-STS:power_state": server.view.power_state,
    }
