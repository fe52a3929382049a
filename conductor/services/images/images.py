"""Changes of images by users, refused while a workflow uses the image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from conductor.core.context import RequestContext
from conductor.db.transactions import write_tx
from conductor.image import operations
from conductor.image.models import Image
from conductor.image.operations import ImageChange
from conductor.image.queries import ImageQuery, get_visible, list_visible
from conductor.journal import locks
from conductor.services.quotas import image_quotas
from conductor.services.servers import volume_images

__all__ = [
    "ImageChange", "ImageQuery", "create", "delete", "get_visible", "list_visible", "set_active", "stage",
    "take_staged", "update", "upload",
]  # fmt: skip

# Each checks the lock before it writes. A workflow creates its image itself, so that a user cannot have started to
# change it before.

UNFINISHED = frozenset({"queued", "saving"})
MAKERS = frozenset({"createImage", "createBackup"})  # actions that don't need the image once it is complete


def create(context: RequestContext, wanted: Mapping[str, Any], *, image_uuid: UUID | None = None) -> Image:
    """Create an image as operations.create does. Raises QuotaExceeded."""
    with write_tx():
        image_quotas.require_count(context.project_id)
        return operations.create(context, wanted, image_uuid=image_uuid)


def update(context: RequestContext, ref: str, changes: Sequence[ImageChange]) -> Image:
    """Update an image as operations.update does.

    Raises ResourceLocked naming the workflow that fills or uses the image.
    """
    _require_free(context, ref)
    return operations.update(context, ref, changes)


def delete(context: RequestContext, ref: str) -> None:
    """Delete an image as operations.delete does, with snapshot data that only it uses. Raises ResourceLocked.

    An image that waits for its data may be deleted meanwhile; the workflow that creates it then cleans up. So may an
    active image whose workflow only has to release the server.
    """
    row = operations.get_visible(context, ref)
    held = locks.holder_of(f"image:{row.uuid}")
    if row.status not in UNFINISHED and held is not None and held.holder_action not in MAKERS:
        _require_free(context, ref)
    operations.delete(context, ref)
    volume_images.release(row.uuid)


def upload(context: RequestContext, ref: str, chunks: Iterable[bytes]) -> Image:
    """Upload data as operations.upload does.

    Raises ResourceLocked, and QuotaExceeded for data beyond the project's quota.
    """
    project_id = _require_fillable(context, ref)
    return operations.upload(context, ref, image_quotas.bounded(project_id, chunks))


def stage(context: RequestContext, ref: str, chunks: Iterable[bytes]) -> None:
    """Stage data as operations.stage does. Raises ResourceLocked, QuotaExceeded."""
    project_id = _require_fillable(context, ref)
    operations.stage(context, ref, image_quotas.bounded(project_id, chunks, is_staged=True))


def take_staged(context: RequestContext, ref: str, method: str) -> None:
    """Import staged data as operations.take_staged does. Raises ResourceLocked."""
    _require_free(context, ref)
    operations.take_staged(context, ref, method)


def set_active(context: RequestContext, ref: str, *, is_active: bool) -> None:
    """Activate or deactivate an image as operations.set_active does. Raises ResourceLocked."""
    _require_free(context, ref)
    operations.set_active(context, ref, is_active=is_active)


def _require_fillable(context: RequestContext, ref: str) -> str:
    """Return the project whose quota an image's data use. Raises ResourceLocked, QuotaExceeded for too many uploads."""
    _require_free(context, ref)
    project_id = operations.get_visible(context, ref).project_id
    image_quotas.require_upload(project_id)
    return project_id


def _require_free(context: RequestContext, ref: str) -> None:
    locks.require_free(f"image:{operations.get_visible(context, ref).uuid}")
