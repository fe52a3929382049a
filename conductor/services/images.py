"""Changes of images by people: what a workflow works on is left alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from conductor.core.context import RequestContext
from conductor.image import operations
from conductor.image.models import Image
from conductor.image.operations import Change
from conductor.journal import foreign_locks
from conductor.services import image_quotas
from conductor.transactions import write_tx

# Each asks for the lock before it writes. A workflow makes its image itself, so that there is no earlier moment at
# which somebody could have begun to change it.

UNFINISHED = frozenset({"queued", "saving"})
MAKERS = frozenset({"createImage", "createBackup"})  # actions that want nothing of an image once it is whole


def create(context: RequestContext, wanted: Mapping[str, Any], *, image_uuid: UUID | None = None) -> Image:
    """As operations.create. Raises QuotaExceeded."""
    with write_tx():
        image_quotas.require_count(context.project_id)
        return operations.create(context, wanted, image_uuid=image_uuid)


def update(context: RequestContext, ref: str, changes: Sequence[Change]) -> Image:
    """As operations.update. Raises ResourceLocked naming the workflow that fills or uses the image."""
    _require_free(context, ref)
    return operations.update(context, ref, changes)


def delete(context: RequestContext, ref: str) -> None:
    """As operations.delete. Raises ResourceLocked.

    One that waits for its data may go while it is made: whoever makes it finds it gone, and leaves nothing behind. So
    may one that has its data, while all that is left to the workflow that made it is to free the server.
    """
    row = operations.get_visible(context, ref)
    held = foreign_locks.holder_of(f"image:{row.uuid}")
    if row.status not in UNFINISHED and held is not None and held.holder_action not in MAKERS:
        _require_free(context, ref)
    operations.delete(context, ref)


def upload(context: RequestContext, ref: str, chunks: Iterable[bytes]) -> Image:
    """As operations.upload. Raises ResourceLocked, and QuotaExceeded for data that the project has no room for."""
    project_id = _require_fillable(context, ref)
    return operations.upload(context, ref, image_quotas.bounded(project_id, chunks))


def stage(context: RequestContext, ref: str, chunks: Iterable[bytes]) -> None:
    """As operations.stage. Raises ResourceLocked, QuotaExceeded."""
    project_id = _require_fillable(context, ref)
    operations.stage(context, ref, image_quotas.bounded(project_id, chunks, is_staged=True))


def take_staged(context: RequestContext, ref: str, method: str) -> None:
    """As operations.take_staged. Raises ResourceLocked."""
    _require_free(context, ref)
    operations.take_staged(context, ref, method)


def set_active(context: RequestContext, ref: str, *, is_active: bool) -> None:
    """As operations.set_active. Raises ResourceLocked."""
    _require_free(context, ref)
    operations.set_active(context, ref, is_active=is_active)


def _require_fillable(context: RequestContext, ref: str) -> str:
    """The project that an image's data count for. Raises ResourceLocked, QuotaExceeded for one upload too many."""
    _require_free(context, ref)
    project_id = operations.get_visible(context, ref).project_id
    image_quotas.require_upload(project_id)
    return project_id


def _require_free(context: RequestContext, ref: str) -> None:
    foreign_locks.require_free(f"image:{operations.get_visible(context, ref).uuid}")
