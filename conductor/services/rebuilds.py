"""Rebuilding and rescuing: actions that start a guest from an image, checked against what the instance is."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from conductor.cell_db.models import BlockDevice, Instance
from conductor.core.compute_driver import GuestFile
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.image import boot_images
from conductor.image.operations import image_spec
from conductor.image.queries import visible_to
from conductor.scheduler import hardware_wishes
from conductor.services import instance_wishes, keypairs, quotas, server_actions, volumes
from conductor.services.server_actions import Asked
from conductor.volume.models import Volume

UNCHANGED: Any = object()
GIB = 1 << 30
# Columns of the instance that a rebuild may change as they are given.
PLAIN = frozenset({"name", "description", "hostname", "metadata", "disk_config", "access_ip_v4", "access_ip_v6"})


@dataclass(frozen=True, kw_only=True)
class RebuildWish:
    """What a rebuild asks for, already valid in form. `values` are columns of PLAIN; what is not there stays.

    `key_name` and `user_data` may be None, which takes them away.
    """

    image_ref: str
    values: Mapping[str, Any] = field(default_factory=dict)
    key_name: str | None = UNCHANGED
    user_data: str | None = field(default=UNCHANGED, repr=False)
    files: tuple[GuestFile, ...] = ()  # instead of those that the guest had
    admin_password: str = field(default="", repr=False)
    may_refill: bool = True  # the root volume, where there is one: else it keeps its data, and no other image will do


def rebuild(context: RequestContext, instance_uuid: str, wish: RebuildWish) -> str:
    """Give the server new disks made of an image; the uuid of the workflow.

    Raises Invalid for an image that does not fit the server's flavor or cannot be used, Conflict as every action.
    """
    inputs: dict[str, Any] = {}

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        inputs["values"] = _rebuilt_values(context, alias, instance, wish)

    hidden: dict[str, Any] = {
        "admin_password": wish.admin_password or new_password(),
        "injected_files": [asdict(file) for file in wish.files],
    }
    if wish.user_data is not UNCHANGED:
        hidden["user_data"] = wish.user_data
    return server_actions.begin(
        context, instance_uuid, "rebuild", Asked(inputs=inputs, secrets=hidden, prepare=prepare)
    )


def rescue(
    context: RequestContext,
    instance_uuid: str,
    *,
    image_ref: str = "",
    admin_password: str = "",
    may_have_root_volume: bool = True,
) -> str:
    """Start the server from a rescue image (its own where none is named), with its root disk as the second.

    `admin_password` becomes the rescue system's. Raises Invalid for an image that cannot be used.
    """
    inputs: dict[str, Any] = {}

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        if not instance.image.get("image_id") and not may_have_root_volume:
            raise Invalid(f"Instance {instance.uuid} cannot be rescued: Cannot rescue a volume-backed instance")
        image = _rescue_image(context, alias, instance, image_ref)
        boot_images.check_parts(instance.project_id, image.properties, field="rescue_image_ref")
        inputs["image"] = asdict(image)

    hidden = {"admin_password": admin_password or new_password()}
    return server_actions.begin(context, instance_uuid, "rescue", Asked(inputs=inputs, secrets=hidden, prepare=prepare))


def change_password(context: RequestContext, instance_uuid: str, admin_password: str) -> str:
    """Set the password of the guest's administrator. It is kept nowhere but with the run, and goes with its end."""
    asked = Asked(secrets={"admin_password": admin_password})
    return server_actions.begin(context, instance_uuid, "changePassword", asked)


def new_password() -> str:
    """A password for an administrator who named none."""
    return secrets.token_urlsafe(9)


def _rebuilt_values(context: RequestContext, alias: str, instance: Instance, wish: RebuildWish) -> dict[str, Any]:
    """Columns of the instance as they will be once its guest is rebuilt."""
    unknown = wish.values.keys() - PLAIN
    if unknown:
        raise Invalid(f"{', '.join(sorted(unknown))} cannot be changed by a rebuild.")
    if "metadata" in wish.values:
        instance_wishes.check_metadata(instance.project_id, wish.values["metadata"])
    quotas.check_files(instance.project_id, wish.files)
    flavor = FlavorSpec(**instance.flavor)
    image = instance_wishes.bootable_image(context, wish.image_ref, flavor)
    boot_images.check_parts(instance.project_id, image.properties)
    hardware_wishes.refuse_change(flavor, instance.image.get("properties", {}), image.properties)
    values = {**wish.values, "image": asdict(image)}
    if not instance.image.get("image_id"):
        values |= _root_volume_values(alias, instance, image, may_refill=wish.may_refill)
    if wish.key_name is not UNCHANGED:
        values |= {"key_name": wish.key_name, "public_key": _public_key(context, instance, wish.key_name)}
    return values


def _public_key(context: RequestContext, instance: Instance, key_name: str | None) -> str:
    """Key pairs belong to people: the one who owns the server is asked, whoever rebuilds it."""
    if key_name is None:
        return ""
    try:
        return keypairs.get(context, instance.user_id, key_name).ssh_key
    except NotFound:
        raise Invalid("Invalid key_name provided.", field="rebuild.key_name") from None


def _root_volume_values(alias: str, instance: Instance, image: ImageSpec, *, may_refill: bool) -> dict[str, Any]:
    """What changes with the data of the root volume. Raises Invalid for an image that the volume cannot hold."""
    volume = _root_volume(alias, instance)
    if not may_refill and volume.image_metadata.get("image_id") != image.image_id:
        raise Invalid("Unable to rebuild with a different image for a volume-backed server.", field="rebuild.imageRef")
    if not may_refill:
        return {"image": instance.image}
    needed = max(image.min_disk_gb, -(-image.size // GIB))
    if volume.size_gb < needed:
        raise Invalid(
            f"Image {image.image_id} needs {needed} GB, the root volume {volume.uuid} has {volume.size_gb} GB.",
            field="rebuild.imageRef",
        )
    return {
        # No image of its own: its properties go on to count.
        "image": asdict(ImageSpec(name=image.name, min_ram_mb=image.min_ram_mb, properties=image.properties)),
        "volume_image": asdict(image),
        "volume_image_metadata": volumes.image_metadata(image),
    }


def _root_volume(alias: str, instance: Instance) -> Volume:
    devices = BlockDevice.objects.using(alias).filter(instance_uuid=instance.uuid, boot_index=0)
    uuid = devices.values_list("volume_uuid", flat=True).first()
    volume = Volume.objects.filter(uuid=uuid).first() if uuid else None
    if volume is None:
        raise Conflict(f"The root volume of instance {instance.uuid} is not there.")
    return volume


def _rescue_image(context: RequestContext, alias: str, instance: Instance, image_ref: str) -> ImageSpec:
    if image_ref:
        return instance_wishes.bootable_image(context, image_ref)
    own_image = instance.image.get("image_id") or _root_volume(alias, instance).image_metadata.get("image_id", "")
    if not own_image:
        raise Invalid("Name an image to rescue the server with: its root volume was made of none.", field="rescue")
    wanted = uuid_or_none(own_image)
    row = visible_to(instance.project_id).filter(uuid=wanted, status="active").first() if wanted else None
    if row is None:
        raise Conflict(f"The server's image {own_image[:60]} is gone: name another as rescue_image_ref.")
    return image_spec(row)
