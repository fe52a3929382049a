"""Images that servers and volumes are created from: read access of projects, and kernel and ramdisk images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import BuildAborted, Invalid
from conductor.core.identifiers import uuid_or_none
from conductor.core.request_spec import ImageSpec
from conductor.image.attributes import KERNEL, PARTS, RAMDISK
from conductor.image.models import Image
from conductor.image.operations import image_spec
from conductor.image.queries import visible_to


def check_parts(project_id: str, properties: Mapping[str, Any], *, field: str = "imageRef") -> None:
    """Raise Invalid unless kernel and ramdisk are active images that members of the project see."""
    wanted = _parts(properties)
    found = _readable(project_id, wanted.values())
    for name, ref in wanted.items():
        if ref not in found:
            raise Invalid(f"The image cannot be used: {name} {ref[:60]} is no active image that you see.", field=field)


def boot_parts(project_id: str, properties: Mapping[str, Any]) -> tuple[ImageSpec | None, ImageSpec | None]:
    """Return kernel and ramdisk of a guest of the project.

    Raises BuildAborted for one that is missing, not active, or not visible to the project (any more).
    """
    wanted = _parts(properties)
    found = _readable(project_id, wanted.values())
    for name, ref in wanted.items():
        if ref not in found:
            raise BuildAborted(f"The guest cannot start: {name} {ref[:60]} is no active image that its project sees.")
    parts = {name: replace(image_spec(found[ref]), properties={}) for name, ref in wanted.items()}
    return parts.get(KERNEL), parts.get(RAMDISK)


def require_readable(context: RequestContext, project_id: str, image_id: str) -> None:
    """Check access before data are fetched for a project, as it may have been revoked since the request.

    Administrators may create a server from any image. Raises BuildAborted for an image that is not active, or not
    visible to the project.
    """
    if not image_id:
        return
    if not _readable(project_id, [image_id], is_admin=context.is_admin):
        raise BuildAborted(f"Image {image_id} is no active image that the project sees.")


def _parts(properties: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(properties[name]) for name in PARTS if properties.get(name)}


def _readable(project_id: str, refs: Iterable[str], *, is_admin: bool = False) -> dict[str, Image]:
    """Return the active images among `refs` that members of the project see, by ref. All of them for an
    administrator.
    """
    uuids = {ref: uuid for ref in refs if (uuid := uuid_or_none(ref))}
    if not uuids:
        return {}
    images = visible_to(project_id, is_admin=is_admin).filter(status="active", uuid__in=uuids.values())
    rows = {row.uuid: row for row in images}
    return {ref: rows[uuid] for ref, uuid in uuids.items() if uuid in rows}
