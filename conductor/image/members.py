"""Members of shared images: the projects that they are offered to."""

from __future__ import annotations

from django.db import IntegrityError
from django.utils import timezone

from conductor import row_limits
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, NotFound
from conductor.db.transactions import write_tx
from conductor.image.models import Image, ImageMember
from conductor.image.queries import get_visible


def list_members(context: RequestContext, ref: str) -> list[ImageMember]:
    """Return all members for the owner; a member sees only itself."""
    image = _shared(context, ref)
    members = image.members.order_by("project_id")
    if not context.may_see_project(image.project_id):
        members = members.filter(project_id=context.project_id)
    return list(members)


def get(context: RequestContext, ref: str, project_id: str) -> ImageMember:
    for member in list_members(context, ref):
        if member.project_id == project_id:
            return member
    raise NotFound(f"{project_id} not found in the member list of the image {ref}.")


def create(context: RequestContext, ref: str, project_id: str) -> ImageMember:
    """Offer an image. Raises Forbidden unless it is the caller's shared image, Conflict for a repeated offer."""
    image = _own(context, ref)
    now = timezone.now()
    try:
        with write_tx():
            row_limits.require("image_members", image.pk, project_id=image.project_id)
            return ImageMember.objects.create(image=image, project_id=project_id, created_at=now, updated_at=now)
    except IntegrityError:
        raise Conflict(f"Image {ref} is already associated with member {project_id}.") from None


def decide(context: RequestContext, ref: str, project_id: str, status: str) -> ImageMember:
    """Accept or reject an offer; only the project that it was made to may do so."""
    member = get(context, ref, project_id)
    if not context.may_see_project(project_id):
        raise Forbidden("Only the project that an image is offered to may accept or reject it.")
    member.status = status
    member.updated_at = timezone.now()
    with write_tx():
        member.save(update_fields=["status", "updated_at"])
    return member


def withdraw(context: RequestContext, ref: str, project_id: str) -> None:
    image = _own(context, ref)
    with write_tx():
        count, _ = image.members.filter(project_id=project_id).delete()
    if not count:
        raise NotFound(f"{project_id} not found in the member list of the image {ref}.")


def _shared(context: RequestContext, ref: str) -> Image:
    image = get_visible(context, ref)
    if image.visibility != "shared":
        raise Forbidden("Only shared images have members.")
    return image


def _own(context: RequestContext, ref: str) -> Image:
    image = _shared(context, ref)
    if not context.may_see_project(image.project_id):
        raise Forbidden(f"You are not permitted to share image {ref}: it belongs to another project.")
    return image
