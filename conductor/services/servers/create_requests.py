"""Validation of launch requests: all checks that are possible before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from conductor.api_db.models import HostMapping, InstanceGroup
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, Invalid, NotFound, QuotaExceeded
from conductor.core.identifiers import uuid_or_none
from conductor.core.messages import message
from conductor.core.request_spec import FlavorSpec, GroupSpec, ImageSpec, RequestSpec
from conductor.image import boot_images
from conductor.image.models import Image
from conductor.image.operations import image_spec
from conductor.image.queries import get_visible
from conductor.network import security_groups
from conductor.scheduler import hardware_requests
from conductor.services.hosts import availability_zones, hosts
from conductor.services.hosts.hosts import HypervisorQuery
from conductor.services.quotas import quotas
from conductor.services.servers import (
    block_devices,
    extra_specs,
    flavors,
    keypairs,
    launch_questions,
    queries,
)
from conductor.services.servers.block_devices import RequestedDevice
from conductor.services.servers.types import InstanceCreate
from conductor.services.volumes import image_mappings
from conductor.services.volumes.types import DeviceRequest

INSTANCE_HINTS = ("same_host", "different_host")
# Kernels and ramdisks are images too, but none of them boots by itself.
PARTS_OF_IMAGES = ("aki", "ari")
GIB = 2**30
LONGEST_HOSTNAME = 63
LONGEST_NAME = 255


@dataclass(frozen=True)
class CheckedCreate:
    """A request whose references exist and fit together. `spec` is for one instance."""

    requested: InstanceCreate
    spec: RequestSpec
    group: InstanceGroup | None
    public_key: str
    devices: tuple[RequestedDevice, ...] = ()


def check(context: RequestContext, requested: InstanceCreate) -> CheckedCreate:
    """Validate a launch.

    Raises Invalid naming the fault, Forbidden for a host named by a caller other than an administrator.
    """
    requested = launch_questions.applied(requested)
    flavor, row = _flavor(context, requested.flavor_ref), _image(context, requested.image_ref)
    requested = _with_listed_devices(row, requested)
    devices = block_devices.check(context, requested.devices, requested.image_ref, flavor)
    volume_image = block_devices.root_image(devices, flavor)
    image = volume_image or _bootable(row, requested.image_ref, flavor)
    if volume_image is None:
        refuse_diskless(context, flavor)
    boot_images.check_parts(context.project_id, image.properties)
    hardware_requests.refuse(flavor, image.properties)
    _check_zone(context, requested.availability_zone)
    check_metadata(context.project_id, requested.metadata)
    quotas.check_files(context.project_id, requested.files)
    if requested.max_count > 1:
        _check_many(requested, devices)
    hints = {name: list(words) for name, words in requested.scheduler_hints.items()}
    extra_specs.check_hints(hints)
    group = _group(context, hints.get("group", []))
    spec = RequestSpec(
        project_id=context.project_id,
        user_id=context.user_id,
        flavor=flavor,
        image=image,
        availability_zone=requested.availability_zone,
        scheduler_hints=hints,
        group=_group_spec(group) if group else None,
        instance_hosts=_instance_hosts(context, hints),
        force_hosts=tuple(_named_hosts(context, requested.forced_host)),
        force_nodes=_named_nodes(context, requested.forced_node, requested.forced_host),
        requested_host="".join(_named_hosts(context, requested.requested_host)),
        is_volume_backed=volume_image is not None,
        is_canary=requested.is_canary,
    )
    return CheckedCreate(
        requested=requested,
        spec=spec,
        group=group,
        public_key=_public_key(context, requested.key_name),
        devices=devices,
    )


def _check_many(requested: InstanceCreate, devices: Sequence[RequestedDevice]) -> None:
    """Raise Invalid for fields that only one server can have."""
    if requested.hostname:
        raise Invalid("Several servers cannot share one hostname: leave it out or ask for one.", field="hostname")
    if len(f"{requested.name}-{requested.max_count}") > LONGEST_NAME:
        raise Invalid(f"The name is too long to be numbered up to {requested.max_count}.", field="server.name")
    if any(network.port_id for network in requested.networks or ()):
        raise Invalid("One port is for one server: name networks to launch several.", field="server.networks")
    if any(device.volume_uuid for device in devices):
        raise Invalid("Cannot attach one or more volumes to multiple instances", field="server.block_device_mapping_v2")


def _with_listed_devices(image: Image | None, requested: InstanceCreate) -> InstanceCreate:
    """Replace an image without data by the devices that it lists.

    Clients also name the image as the root device. A root device of the list replaces that one.
    """
    listed = image_mappings.devices_of(image, requested.image_ref)
    if not listed:
        return requested
    is_there = any(device.is_root for device in listed)
    own = [one for one in requested.devices if not (is_there and one.is_root and _is_image(one, requested.image_ref))]
    return replace(requested, image_ref="", devices=(*listed, *own))


def _is_image(device: DeviceRequest, image_ref: str) -> bool:
    return device.source == "image" and device.uuid == image_ref


def hostname_of(requested: InstanceCreate, name: str, instance_uuid: str) -> str:
    """Return the hostname: the requested one, or one made of the name's usable letters. Without any, one made of the
    uuid.
    """
    if requested.hostname:
        return requested.hostname
    words = re.sub(r"[^a-z0-9-]+", "", re.sub(r"[ _.]+", "-", name.lower()))
    return words.strip("-")[:LONGEST_HOSTNAME].strip("-") or f"server-{instance_uuid}"


def security_group_names(context: RequestContext, requested: InstanceCreate) -> list[str]:
    """Return the names of the requested groups; `default` where none was requested, and none without a network.

    In the write transaction of the launch: a project's default group is created when it is first needed.
    """
    if requested.networks == ():
        return []
    try:
        groups = security_groups.resolve(
            context.project_id, requested.security_groups or (security_groups.DEFAULT_NAME,)
        )
    except NotFound as error:
        raise Invalid(error.message, field="server.security_groups") from None
    return [group.name for group in groups]


def _flavor(context: RequestContext, ref: str) -> FlavorSpec:
    try:
        found = flavors.get(context, ref)
    except NotFound as error:
        raise Invalid(error.message, field="flavorRef") from None
    if found.is_disabled:
        raise Invalid(f"Flavor {ref} is disabled.", field="flavorRef")
    return found.spec


def _image(context: RequestContext, ref: str) -> Image | None:
    """Return the image that the caller sees. None for none, which is refused where an image is needed."""
    try:
        return get_visible(context, ref) if ref else None
    except NotFound:
        return None


def bootable_image(
    context: RequestContext, ref: str, flavor: FlavorSpec | None = None, *, is_volume_backed: bool = False
) -> ImageSpec:
    """Return the image, if a guest (of this flavor, where one is given) can boot from it. Raises Invalid.

    The flavor's disk does not count for a guest that `is_volume_backed`, as its root disk is the volume.
    """
    return _bootable(_image(context, ref), ref, flavor, is_volume_backed=is_volume_backed)


def _bootable(row: Image | None, ref: str, flavor: FlavorSpec | None, *, is_volume_backed: bool = False) -> ImageSpec:
    if not ref:
        raise Invalid("Name an image to boot from, or a volume as block device with boot_index 0.", field="imageRef")
    if row is None:
        raise Invalid(f"Can not find requested image {ref}.", field="imageRef")
    if row.status != "active":
        raise Invalid(f"Image {ref} is not active.", field="imageRef")
    if row.container_format in PARTS_OF_IMAGES:
        raise Invalid(f"Image {ref} is a kernel or ramdisk: nothing boots from it alone.", field="imageRef")
    image = image_spec(row)
    if flavor is not None:
        refuse_too_small(image, flavor, is_volume_backed=is_volume_backed)
    return image


def refuse_diskless(context: RequestContext, flavor: FlavorSpec) -> None:
    """Raise Forbidden for a flavor without a root disk, on which only administrators boot from an image.

    The image's own size would be the disk's, which no quota and no host accounts for.
    """
    if not flavor.root_gb and not context.is_admin:
        raise Forbidden("Only volume-backed servers are allowed for flavors with zero disk.", field="flavorRef")


def refuse_too_small(image: ImageSpec, flavor: FlavorSpec, *, is_volume_backed: bool = False) -> None:
    """Raise Invalid for a flavor with less memory, or a smaller root disk of its own, than the image requires."""
    if flavor.memory_mb < image.min_ram_mb:
        raise Invalid(
            f"Flavor's memory is too small for requested image: {flavor.name} has {flavor.memory_mb} MB, "
            f"the image needs {image.min_ram_mb} MB.",
            field="flavorRef",
        )
    if is_volume_backed or not flavor.root_gb:
        return  # a flavor without a root disk uses the image's size
    needed_gb = max(image.min_disk_gb, -(-image.size // GIB))
    if flavor.root_gb < needed_gb:
        raise Invalid(
            f"Flavor's disk is too small for requested image: {flavor.name} has {flavor.root_gb} GB, "
            f"the image needs {needed_gb} GB.",
            field="flavorRef",
        )


def _check_zone(context: RequestContext, zone: str) -> None:
    if zone and not availability_zones.exists(context, zone):
        raise Invalid("The requested availability zone is not available", field="availability_zone")


def check_metadata(project_id: str, metadata: Mapping[str, str]) -> None:
    """Raise QuotaExceeded for more items than a server of the project may have."""
    if not metadata:
        return
    limit = quotas.limits(project_id)["metadata_items"]
    if limit != quotas.UNLIMITED and len(metadata) > limit:
        raise QuotaExceeded(message("quota.metadata", wanted=len(metadata), most=limit))


def _public_key(context: RequestContext, key_name: str | None) -> str:
    return "" if key_name is None else keypairs.key_for_guest(context.user_id, key_name, field="key_name")


def _group(context: RequestContext, words: Sequence[str]) -> InstanceGroup | None:
    if not words:
        return None
    wanted = uuid_or_none(words[0])
    row = InstanceGroup.objects.filter(uuid=wanted, project_id=context.project_id).first() if wanted else None
    if row is None:
        raise Invalid(f"Instance group {words[0]} could not be found.", field="os:scheduler_hints.group")
    return row


def _group_spec(group: InstanceGroup) -> GroupSpec:
    members = group.members.values_list("instance_uuid", "host")
    return GroupSpec(
        group_uuid=str(group.uuid),
        policy=group.policy,
        rules=dict(group.rules),
        member_hosts={str(instance_uuid): host for instance_uuid, host in members},
    )


def _instance_hosts(context: RequestContext, hints: Mapping[str, Sequence[str]]) -> dict[str, str]:
    found = {}
    for hint in INSTANCE_HINTS:
        for instance_uuid in hints.get(hint, []):
            try:
                found[instance_uuid] = queries.get(context, instance_uuid).host
            except NotFound as error:
                raise Invalid(error.message, field=f"os:scheduler_hints.{hint}") from None
    return found


def _named_hosts(context: RequestContext, host: str) -> tuple[str, ...]:
    """Return the named host, if any."""
    if not host:
        return ()
    _require_forcing(context)
    if not HostMapping.objects.filter(host=host).exists():
        raise Invalid(f"Compute host {host} could not be found.", field="host")
    return (host,)


def _named_nodes(context: RequestContext, node: str, host: str) -> tuple[str, ...]:
    """Return the named node, if any. Raises Invalid for one that is not on the named host, or on none."""
    if not node:
        return ()
    _require_forcing(context)
    found = hosts.list_hypervisors(context, HypervisorQuery(name_part=node, hosts=(host,) if host else ()))
    if not any(row.node == node for row in found.items):
        where = f" of host {host}" if host else ""
        raise Invalid(f"Node {node}{where} could not be found.", field="server.availability_zone")
    return (node,)


def _require_forcing(context: RequestContext) -> None:
    if not context.is_admin:
        raise Forbidden("Policy doesn't allow os_compute_api:servers:create:forced_host to be performed.")
