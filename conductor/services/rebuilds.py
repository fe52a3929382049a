"""Rebuilding and rescuing: actions that start a guest from an image, checked against what the instance is."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from conductor.cell_db.models import Instance
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.image import operations as images
from conductor.scheduler import hardware_wishes
from conductor.services import instance_wishes, keypairs, server_actions
from conductor.services.server_actions import Asked

UNCHANGED: Any = object()
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
    admin_password: str = field(default="", repr=False)


def rebuild(context: RequestContext, instance_uuid: str, wish: RebuildWish) -> str:
    """Give the server new disks made of an image; the uuid of the workflow.

    Raises Invalid for an image that does not fit the server's flavor or cannot be used, Conflict as every action.
    """
    inputs: dict[str, Any] = {}

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        inputs["values"] = _rebuilt_values(context, instance, wish)

    hidden = {"admin_password": wish.admin_password or new_password()}
    if wish.user_data is not UNCHANGED:
        hidden["user_data"] = wish.user_data  # type: ignore[assignment]
    return server_actions.begin(
        context, instance_uuid, "rebuild", Asked(inputs=inputs, secrets=hidden, prepare=prepare)
    )


def rescue(context: RequestContext, instance_uuid: str, *, image_ref: str = "", admin_password: str = "") -> str:
    """Start the server from a rescue image (its own where none is named), with its root disk as the second.

    `admin_password` becomes the rescue system's. Raises Invalid for an image that cannot be used.
    """
    inputs: dict[str, Any] = {}

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        inputs["image"] = asdict(_rescue_image(context, instance, image_ref))

    hidden = {"admin_password": admin_password or new_password()}
    return server_actions.begin(context, instance_uuid, "rescue", Asked(inputs=inputs, secrets=hidden, prepare=prepare))


def change_password(context: RequestContext, instance_uuid: str, admin_password: str) -> str:
    """Set the password of the guest's administrator. It is kept nowhere but with the run, and goes with its end."""
    asked = Asked(secrets={"admin_password": admin_password})
    return server_actions.begin(context, instance_uuid, "changePassword", asked)


def new_password() -> str:
    """A password for an administrator who named none."""
    return secrets.token_urlsafe(9)


def _rebuilt_values(context: RequestContext, instance: Instance, wish: RebuildWish) -> dict[str, Any]:
    """Columns of the instance as they will be once its guest is rebuilt."""
    unknown = wish.values.keys() - PLAIN
    if unknown:
        raise Invalid(f"{', '.join(sorted(unknown))} cannot be changed by a rebuild.")
    if not instance.image.get("image_id"):
        raise Invalid("A server that boots from a volume cannot be rebuilt.", field="rebuild.imageRef")
    if "metadata" in wish.values:
        instance_wishes.check_metadata(instance.project_id, wish.values["metadata"])
    flavor = FlavorSpec(**instance.flavor)
    image = instance_wishes.bootable_image(context, wish.image_ref, flavor)
    hardware_wishes.refuse_change(flavor, instance.image.get("properties", {}), image.properties)
    values = {**wish.values, "image": asdict(image)}
    if wish.key_name is not UNCHANGED:
        values |= {"key_name": wish.key_name, "public_key": _public_key(context, instance, wish.key_name)}
    return values


def _public_key(context: RequestContext, instance: Instance, key_name: str | None) -> str:
    """Key pairs belong to people: the one who owns the server is asked, whoever rebuilds it."""
    if key_name is None:
        return ""
    try:
        return keypairs.get(context, instance.user_id, key_name).public_key
    except NotFound:
        raise Invalid("Invalid key_name provided.", field="rebuild.key_name") from None


def _rescue_image(context: RequestContext, instance: Instance, image_ref: str) -> ImageSpec:
    own_image = instance.image.get("image_id", "")
    if not own_image:
        raise Invalid("A server that boots from a volume cannot be rescued.", field="rescue")
    if image_ref:
        return instance_wishes.bootable_image(context, image_ref)
    try:
        return images.image_spec(images.get(own_image))
    except NotFound:
        raise Conflict(f"The server's image {own_image} is gone: name another as rescue_image_ref.") from None
