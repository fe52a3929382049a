"""Records of image imports, kept for a while for clients that poll them."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.image.models import Image, ImageTask

KEPT = timedelta(hours=48)


def record(context: RequestContext, image: Image, method: str) -> None:
    """Record a finished import, inside its transaction, and delete old records."""
    now = timezone.now()
    ImageTask.objects.filter(created_at__lt=now - KEPT).delete()
    ImageTask.objects.create(
        image=image,
        method=method,
        project_id=context.project_id,
        user_id=context.user_id,
        request_id=context.request_id,
        created_at=now,
    )


def of_image(context: RequestContext, image: Image) -> list[ImageTask]:
    """Return imports of an image, oldest first; only the owner's, so that other viewers do not see who imported it."""
    return list(_visible(context).filter(image=image).order_by("pk"))


def list_visible(context: RequestContext, limit: int, marker: str = "") -> list[ImageTask]:
    """Return imports, newest first: all for administrators, else the project's. Raises NotFound for an unknown
    marker.
    """
    rows = _visible(context).order_by("-pk")
    if marker:
        rows = rows.filter(pk__lt=get_visible(context, marker).pk)
    return list(rows[:limit])


def get_visible(context: RequestContext, ref: str) -> ImageTask:
    """Return an import. Raises NotFound."""
    wanted = uuid_or_none(ref)
    found = _visible(context).filter(uuid=wanted).first() if wanted else None
    if found is None:
        raise NotFound(f"No task found with ID {ref[:60]}")
    return found


def _visible(context: RequestContext) -> QuerySet[ImageTask]:
    return _kept() if context.is_admin else _kept().filter(project_id=context.project_id)


def _kept() -> QuerySet[ImageTask]:
    return ImageTask.objects.select_related("image").filter(created_at__gte=timezone.now() - KEPT)
