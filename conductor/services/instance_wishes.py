"""What a launch asks for, checked against what there is: everything that can be known before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from conductor.api_db.models import HostMapping, InstanceGroup
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, Invalid, NotFound, QuotaExceeded
from conductor.core.identifiers import uuid_or_none
from conductor.core.request_spec import FlavorSpec, GroupSpec, ImageSpec, RequestSpec
from conductor.image import boot_images
from conductor.image.operations import image_spec
from conductor.image.queries import get_visible
from conductor.network import security_groups
from conductor.scheduler import hardware_wishes
from conductor.services import (
    availability_zones,
    device_wishes,
    flavors,
    hint_rules,
    instance_queries,
    keypairs,
    launch_forms,
    quotas,
    volume_images,
)
from conductor.services.device_wishes import Device
from conductor.services.values import BuildWish

INSTANCE_HINTS = ("same_host", "different_host")
# Kernels and ramdisks are images too, but nothing boots from one alone.
PARTS_OF_IMAGES = ("aki", "ari")
GIB = 2**30
LONGEST_HOSTNAME = 63
LONGEST_NAME = 255


@dataclass(frozen=True)
class CheckedWish:
    """A wish of which everything named exists and fits together. `spec` is for one instance."""

    wish: BuildWish
    spec: RequestSpec
    group: InstanceGroup | None
    public_key: str
    devices: tuple[Device, ...] = ()


def check(context: RequestContext, wish: BuildWish) -> CheckedWish:
    """Raises Invalid naming what is wrong, Forbidden for a host named by anybody but an administrator."""
    wish = launch_forms.applied(wish)
    flavor, wish = _flavor(context, wish.flavor_ref), _with_listed_devices(context, wish)
    devices = device_wishes.check(context, wish.devices, wish.image_ref, flavor)
    volume_image = device_wishes.root_image(devices, flavor)
    image = volume_image or bootable_image(context, wish.image_ref, flavor)
    boot_images.check_parts(context.project_id, image.properties)
    hardware_wishes.refuse(flavor, image.properties)
    _check_zone(context, wish.availability_zone)
    check_metadata(context.project_id, wish.metadata)
    quotas.check_files(context.project_id, wish.files)
    if wish.max_count > 1:
        _check_many(wish, devices)
    hints = {name: list(words) for name, words in wish.scheduler_hints.items()}
    hint_rules.check(hints)
    group = _group(context, hints.get("group", []))
    spec = RequestSpec(
        project_id=context.project_id,
        user_id=context.user_id,
        flavor=flavor,
        image=image,
        availability_zone=wish.availability_zone,
        scheduler_hints=hints,
        group=_group_spec(group) if group else None,
        instance_hosts=_instance_hosts(context, hints),
        force_hosts=tuple(_named_hosts(context, wish.forced_host)),
        requested_host="".join(_named_hosts(context, wish.requested_host)),
        is_volume_backed=volume_image is not None,
        is_canary=wish.is_canary,
    )
    return CheckedWish(
        wish=wish,
        spec=spec,
        group=group,
        public_key=_public_key(context, wish.key_name),
        devices=devices,
    )


def _check_many(wish: BuildWish, devices: Sequence[Device]) -> None:
    """What belongs to one server cannot belong to several."""
    if wish.hostname:
        raise Invalid("Several servers cannot share one hostname: leave it out or ask for one.", field="hostname")
    if len(f"{wish.name}-{wish.max_count}") > LONGEST_NAME:
        raise Invalid(f"The name is too long to be numbered up to {wish.max_count}.", field="server.name")
    if any(network.port_id for network in wish.networks or ()):
        raise Invalid("One port is for one server: name networks to launch several.", field="server.networks")
    if any(device.volume_uuid for device in devices):
        raise Invalid("Cannot attach one or more volumes to multiple instances", field="server.block_device_mapping_v2")


def _with_listed_devices(context: RequestContext, wish: BuildWish) -> BuildWish:
    """An image without data of its own stands for the devices that it lists."""
    listed = volume_images.devices_of(context, wish.image_ref)
    return replace(wish, image_ref="", devices=(*listed, *wish.devices)) if listed else wish


def hostname_of(wish: BuildWish, name: str, instance_uuid: str) -> str:
    """What the guest calls itself: as asked, or made of the server's name; a name without usable letters gives none."""
    if wish.hostname:
        return wish.hostname
    words = re.sub(r"[^a-z0-9-]+", "", re.sub(r"[ _.]+", "-", name.lower()))
    return words.strip("-")[:LONGEST_HOSTNAME].strip("-") or f"server-{instance_uuid}"


def security_group_names(context: RequestContext, wish: BuildWish) -> list[str]:
    """Names of the groups asked for by name or id; `default` where none was, and none without a network.

    In the write transaction of the launch: a project's default group is made when it is first needed.
    """
    if wish.networks == ():
        return []
    try:
        groups = security_groups.resolve(context.project_id, wish.security_groups or (security_groups.DEFAULT_NAME,))
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


def bootable_image(context: RequestContext, ref: str, flavor: FlavorSpec | None = None) -> ImageSpec:
    """The image, if a guest (of this size, where one is given) can start from it. Raises Invalid."""
    if not ref:
        raise Invalid("Name an image to boot from, or a volume as block device with boot_index 0.", field="imageRef")
    try:
        row = get_visible(context, ref)
    except NotFound:
        raise Invalid(f"Can not find requested image {ref}.", field="imageRef") from None
    if row.status != "active":
        raise Invalid(f"Image {ref} is not active.", field="imageRef")
    if row.container_format in PARTS_OF_IMAGES:
        raise Invalid(f"Image {ref} is a kernel or ramdisk: nothing boots from it alone.", field="imageRef")
    image = image_spec(row)
    if flavor is not None:
        refuse_too_small(image, flavor)
    return image


def refuse_too_small(image: ImageSpec, flavor: FlavorSpec) -> None:
    """Raises Invalid for a flavor with less memory or root disk than the image asks for."""
    if flavor.memory_mb < image.min_ram_mb:
        raise Invalid(
            f"Flavor's memory is too small for requested image: {flavor.name} has {flavor.memory_mb} MB, "
            f"the image needs {image.min_ram_mb} MB.",
            field="flavorRef",
        )
    if not flavor.root_gb:
        return  # a flavor without a root disk takes the image as it is
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
    """Raises QuotaExceeded for more items than a server of the project may have."""
    limit = quotas.limits(project_id)["metadata_items"]
    if limit != quotas.UNLIMITED and len(metadata) > limit:
        raise QuotaExceeded(f"Quota exceeded for metadata_items: {len(metadata)} asked for, {limit} allowed.")


def _public_key(context: RequestContext, key_name: str | None) -> str:
    if key_name is None:
        return ""
    try:
        return keypairs.get(context, context.user_id, key_name).ssh_key
    except NotFound:
        raise Invalid("Invalid key_name provided.", field="key_name") from None


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
                found[instance_uuid] = instance_queries.get(context, instance_uuid).host
            except NotFound as error:
                raise Invalid(error.message, field=f"os:scheduler_hints.{hint}") from None
    return found


def _named_hosts(context: RequestContext, host: str) -> tuple[str, ...]:
    """The host that was named, if any."""
    if not host:
        return ()
    if not context.is_admin:
        raise Forbidden("Policy doesn't allow os_compute_api:servers:create:forced_host to be performed.")
    if not HostMapping.objects.filter(host=host).exists():
        raise Invalid(f"Compute host {host} could not be found.", field="host")
    return (host,)
