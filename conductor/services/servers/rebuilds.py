"""Rebuild, rescue and password change: validation against the instance, and start of the workflow."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from conductor.cell_db.models import BlockDevice, Instance
from conductor.core.compute_driver import GuestFile
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid
from conductor.core.identifiers import uuid_or_none
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.image import boot_images
from conductor.image.operations import image_spec
from conductor.image.queries import visible_to
from conductor.scheduler import hardware_requests
from conductor.services.quotas import quotas
from conductor.services.servers import actions, create_requests, keypairs
from conductor.services.servers.actions import ActionRequest
from conductor.services.volumes import volumes
from conductor.volume.models import Volume

UNCHANGED: Any = object()
GIB = 1 << 30
# Columns of the instance that a rebuild may set directly.
PLAIN = frozenset({"name", "description", "hostname", "metadata", "disk_config", "access_ip_v4", "access_ip_v6"})


@dataclass(frozen=True, kw_only=True)
class RebuildRequest:
    """A rebuild request with a valid form. `values` are columns of PLAIN; missing ones stay.

    `key_name` and `user_data` may be None, which removes them.
    """

    image_ref: str
    values: Mapping[str, Any] = field(default_factory=dict)
    key_name: str | None = UNCHANGED
    user_data: str | None = field(default=UNCHANGED, repr=False)
    files: tuple[GuestFile, ...] = ()  # replace those of the guest
    admin_password: str = field(default="", repr=False)
    may_refill: bool = True  # whether a root volume gets new data; without it, no other image is allowed


def rebuild(context: RequestContext, instance_uuid: str, requested: RebuildRequest) -> str:
    """Rebuild the server's disks from an image; returns the uuid of the workflow.

    Raises Invalid for an image that is unusable or does not fit the server's flavor, Conflict as every action.
    """
    inputs: dict[str, Any] = {}

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        inputs["values"] = _rebuilt_values(context, alias, instance, requested)
        # clients see the new image at once; after a failure EndAction restores the old one
        if not instance.is_volume_backed:
            inputs["before"] = {"image": instance.image}
            Instance.objects.using(alias).filter(pk=instance.pk).update(image=inputs["values"]["image"])

    hidden: dict[str, Any] = {
        "admin_password": requested.admin_password or new_password(),
        "injected_files": [asdict(file) for file in requested.files],
    }
    if requested.user_data is not UNCHANGED:
        hidden["user_data"] = requested.user_data
    return actions.begin(
        context, instance_uuid, "rebuild", ActionRequest(inputs=inputs, secrets=hidden, prepare=prepare)
    )


def rescue(
    context: RequestContext,
    instance_uuid: str,
    *,
    image_ref: str = "",
    admin_password: str = "",
    may_have_root_volume: bool = True,
) -> str:
    """Boot the server from a rescue image (its own where none is named), with its root disk as the second.

    `admin_password` becomes the rescue system's. Raises Invalid for an image that cannot be used.
    """
    inputs: dict[str, Any] = {}

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        if instance.is_volume_backed and not may_have_root_volume:
            raise Invalid(f"Instance {instance.uuid} cannot be rescued: Cannot rescue a volume-backed instance")
        image = _rescue_image(context, alias, instance, image_ref)
        boot_images.check_parts(instance.project_id, image.properties, field="rescue_image_ref")
        inputs["image"] = asdict(image)

    hidden = {"admin_password": admin_password or new_password()}
    return actions.begin(
        context, instance_uuid, "rescue", ActionRequest(inputs=inputs, secrets=hidden, prepare=prepare)
    )


def change_password(context: RequestContext, instance_uuid: str, admin_password: str) -> str:
    """Set the password of the guest's administrator. It is stored only with the run, and deleted at its end."""
    requested = ActionRequest(secrets={"admin_password": admin_password})
    return actions.begin(context, instance_uuid, "changePassword", requested)


def new_password() -> str:
    """Generate an administrator's password where the request has none."""
    return secrets.token_urlsafe(9)


def _rebuilt_values(
    context: RequestContext, alias: str, instance: Instance, requested: RebuildRequest
) -> dict[str, Any]:
    """Return the columns of the instance after the rebuild."""
    unknown = requested.values.keys() - PLAIN
    if unknown:
        raise Invalid(f"{', '.join(sorted(unknown))} cannot be changed by a rebuild.")
    if "metadata" in requested.values:
        create_requests.check_metadata(instance.project_id, requested.values["metadata"])
    quotas.check_files(instance.project_id, requested.files)
    flavor = FlavorSpec(**instance.flavor)
    image = create_requests.bootable_image(
        context, requested.image_ref, flavor, is_volume_backed=instance.is_volume_backed
    )
    boot_images.check_parts(instance.project_id, image.properties)
    hardware_requests.refuse_change(flavor, instance.image.get("properties", {}), image.properties)
    values = {**requested.values, "image": asdict(image)}
    if instance.is_volume_backed:
        values |= _root_volume_values(alias, instance, image, may_refill=requested.may_refill)
    if requested.key_name is not UNCHANGED:
        # A key of the server's owner, also where another user rebuilds it, as key pairs belong to users.
        key_name, public_key = requested.key_name, ""
        if key_name is not None:
            public_key = keypairs.key_for_guest(instance.user_id, key_name, field="rebuild.key_name")
        values |= {"key_name": key_name, "public_key": public_key}
    return values


def _root_volume_values(alias: str, instance: Instance, image: ImageSpec, *, may_refill: bool) -> dict[str, Any]:
    """Return the values that change with the root volume's data.

    Raises Invalid for an image that doesn't fit the volume.
    """
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
        # No image of its own: its properties still count.
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
        return create_requests.bootable_image(context, image_ref)
    own_image = instance.image.get("image_id") or _root_volume(alias, instance).image_metadata.get("image_id", "")
    if not own_image:
        raise Invalid("Name an image to rescue the server with: its root volume was made of none.", field="rescue")
    wanted = uuid_or_none(own_image)
    row = visible_to(instance.project_id).filter(uuid=wanted, status="active").first() if wanted else None
    if row is None:
        raise Conflict(f"The server's image {own_image[:60]} is gone: name another as rescue_image_ref.")
    return image_spec(row)
