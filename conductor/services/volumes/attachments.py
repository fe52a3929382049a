"""Attachments that clients of the volume API create, for uses other than servers of this cloud.

Only compute's workflows create and end a server's own attachments, as the guest may be writing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from conductor import row_limits
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import write_tx
from conductor.services.volumes import volumes
from conductor.volume import operations
from conductor.volume.lists import order_of, page
from conductor.volume.models import Volume, VolumeAttachment
from conductor.volume.states import ATTACHING, AVAILABLE, DETACHING, IN_USE, RESERVED

SORT_KEYS = {
    "created_at": "pk",  # rows have no time of their own: their numbers rise with it
    "id": "uuid",
    "status": "status",
    "attach_status": "status",
    "volume_id": "volume__uuid",
}
MODES = ("rw", "ro")


@dataclass(frozen=True, slots=True)
class AttachmentQuery:
    """Filters for attachments: `filters` are equality by volume_id, instance_id, status or attach_status."""

    filters: Mapping[str, str]
    all_projects: bool = False
    sort: Sequence[tuple[str, bool]] = (("created_at", True),)
    limit: int | None = None
    marker: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class AttachmentAsk:
    """An attachment to create. With a connector it is for that one; without, the volume is only reserved."""

    volume_id: str
    instance_id: str | None = None
    connector: Mapping[str, Any] | None = None
    mode: str = "rw"
    device: str = ""
    host: str = ""


def list_visible(context: RequestContext, query: AttachmentQuery) -> list[VolumeAttachment]:
    """Return a page of attachments, newest first by default. Raises NotFound for an unknown marker, Invalid."""
    rows = anchors = _visible(context)
    if not (context.is_admin and query.all_projects):
        rows = rows.filter(volume__project_id=context.project_id)
    for name, value in query.filters.items():
        column = {"volume_id": "volume__uuid", "instance_id": "instance_uuid"}.get(name, "status")
        wanted = uuid_or_none(value) if column != "status" else {"attached": IN_USE}.get(value, value)
        rows = rows.filter(**{column: wanted}) if wanted is not None else rows.none()
    limit = None if query.limit is None else query.offset + query.limit
    order = order_of(SORT_KEYS, query.sort)
    return page(rows, order, anchors=anchors, marker=query.marker, limit=limit)[query.offset :]


def get(context: RequestContext, attachment_id: str) -> VolumeAttachment:
    """Return an attachment. Raises NotFound."""
    wanted = uuid_or_none(attachment_id)
    row = _visible(context).filter(uuid=wanted).first() if wanted else None
    if row is None:
        raise NotFound(f"Volume attachment could not be found with filter: attachment_id = {attachment_id[:60]}.")
    return row


def create(context: RequestContext, ask: AttachmentAsk) -> VolumeAttachment:
    """Create an attachment. Raises NotFound, Invalid for an unavailable volume, QuotaExceeded, ResourceLocked."""
    with write_tx():
        wanted = volumes.get_visible(context, ask.volume_id)
        row_limits.require("volume_attachments", wanted.pk, project_id=wanted.project_id)
        volume = volumes.free_to_change(context, ask.volume_id)
        _check_mode(volume, ask.mode)
        if ask.instance_id and volume.attachments.filter(instance_uuid=ask.instance_id).exists():
            raise Invalid(f"Invalid volume: Volume {volume.uuid} is attached to {ask.instance_id} already.")
        _require_free(volume)
        status = RESERVED if ask.connector is None else ATTACHING
        row = VolumeAttachment.objects.create(
            volume=volume,
            instance_uuid=ask.instance_id,
            host=ask.host,
            device=ask.device,
            status=status,
            mode=ask.mode,
            connector=dict(ask.connector or {}),
        )
        operations.follow(volume)
    return row


def connect(context: RequestContext, attachment_id: str, connector: Mapping[str, Any]) -> VolumeAttachment:
    """Set the connector that opens the volume.

    Raises NotFound, Conflict for a server's attachment, Invalid for one in use.
    """
    with write_tx():
        row = _held(context, attachment_id)
        if row.status not in (RESERVED, ATTACHING):
            raise Invalid(f"Invalid volume attachment: attachment {row.uuid} is {row.status}.")
        _change(row, status=ATTACHING, connector=dict(connector), host=str(connector.get("host", ""))[:255])
    return get(context, attachment_id)


def complete(context: RequestContext, attachment_id: str) -> None:
    """Mark an attachment as in use. Raises NotFound, Conflict for a server's attachment."""
    with write_tx():
        row = _held(context, attachment_id)
        if row.status not in (RESERVED, ATTACHING, IN_USE):
            raise Invalid(f"Invalid volume attachment: attachment {row.uuid} is {row.status}.")
        _change(row, status=IN_USE, attached_at=row.attached_at or timezone.now())


def delete(context: RequestContext, attachment_id: str) -> list[VolumeAttachment]:
    """Delete an attachment; returns the volume's remaining ones.

    Raises NotFound, Conflict for a server's attachment.
    """
    with write_tx():
        row = _held(context, attachment_id)
        VolumeAttachment.objects.filter(pk=row.pk).delete()
        operations.follow(row.volume)
        return list(row.volume.attachments.select_related("volume"))


# -- the older API: actions of the volume


def keep(context: RequestContext, volume_id: str) -> None:
    """Set a volume to `attaching`, before its attachment. Raises NotFound, Invalid for one that is not free."""
    with write_tx():
        volume = volumes.free_to_change(context, volume_id)
        if not operations.turn(volume.uuid, (AVAILABLE,), ATTACHING):
            status = operations.counted_status(volume)
            raise Invalid(f"Invalid volume: Volume {volume.uuid} status must be available, but is {status}.")


def keep_no_more(context: RequestContext, volume_id: str) -> None:
    """Set a volume to `available` again. Raises NotFound, Invalid for one in another state, Conflict for a server's."""
    with write_tx():
        volume = volumes.free_to_change(context, volume_id)
        if volume.attachments.exists():
            raise Conflict(f"Volume {volume.uuid} is for a server: detach it from that server.")
        if volume.status == ATTACHING:
            operations.turn(volume.uuid, (ATTACHING,), AVAILABLE)


def attach(context: RequestContext, ask: AttachmentAsk) -> None:
    """Attach a volume at once. Raises NotFound, Invalid for one that is not free, ResourceLocked."""
    with write_tx():
        volume = volumes.free_to_change(context, ask.volume_id)
        _check_mode(volume, ask.mode)
        if volume.status not in (AVAILABLE, ATTACHING) or volume.attachments.exists():
            raise Invalid(f"Invalid volume: Volume {volume.uuid} status must be available, but is {volume.status}.")
        VolumeAttachment.objects.create(
            volume=volume,
            instance_uuid=ask.instance_id,
            host=ask.host,
            device=ask.device,
            status=IN_USE,
            mode=ask.mode,
            connector={},
            attached_at=timezone.now(),
        )
        operations.follow(volume)


def detach(context: RequestContext, volume_id: str, attachment_id: str | None = None) -> None:
    """Detach a volume. Does nothing where it is not attached.

    Raises NotFound, Invalid for another volume's attachment, Conflict for a server's own.
    """
    with write_tx():
        volume = volumes.free_to_change(context, volume_id)
        rows = list(volume.attachments.all())
        if attachment_id is not None:
            rows = [row for row in rows if str(row.uuid) == attachment_id]
        if attachment_id is not None and not rows:
            raise Invalid(f"Invalid volume: Unable to detach volume {volume.uuid}: it is not attached.")
        for row in rows:
            _require_own(row)
            VolumeAttachment.objects.filter(pk=row.pk).delete()
        operations.follow(volume)


def begin_detaching(context: RequestContext, volume_id: str, *, is_back: bool = False) -> None:
    """Set a volume to `detaching`, or with `is_back` to in use. Raises NotFound, Invalid, Conflict for a server's."""
    before, after = (DETACHING, IN_USE) if is_back else (IN_USE, DETACHING)
    with write_tx():
        volume = volumes.free_to_change(context, volume_id)
        rows = list(volume.attachments.all())
        for row in rows:
            _require_own(row)
        if not rows or volume.status != before:
            raise Invalid(f"Invalid volume: Volume {volume.uuid} status must be {before}, but is {volume.status}.")
        VolumeAttachment.objects.filter(volume=volume).update(status=after)
        operations.follow(volume)


def require_no_server(context: RequestContext, volume_id: str) -> None:
    """Raise NotFound, or Conflict for a volume attached to a server."""
    for row in volumes.get_visible(context, volume_id).attachments.all():
        _require_own(row)


def is_a_servers(row: VolumeAttachment) -> bool:
    """Whether compute created the attachment. Such a one has no connector, as the host opens the volume by its path."""
    return row.connector is None


def _visible(context: RequestContext) -> QuerySet[VolumeAttachment]:
    rows = VolumeAttachment.objects.select_related("volume")
    return rows if context.is_admin else rows.filter(volume__project_id=context.project_id)


def _held(context: RequestContext, attachment_id: str) -> VolumeAttachment:
    row = get(context, attachment_id)
    volumes.free_to_change(context, str(row.volume.uuid))
    _require_own(row)
    return row


def _require_own(row: VolumeAttachment) -> None:
    if is_a_servers(row):
        raise Conflict(
            f"Attachment {row.uuid} is that of server {row.instance_uuid}: detach the volume from the server instead."
        )


def _require_free(volume: Volume) -> None:
    if not operations.is_free(volume):
        status = operations.counted_status(volume)
        raise Invalid(f"Invalid volume: Volume {volume.uuid} status must be available, but is {status}.")


def _check_mode(volume: Volume, mode: str) -> None:
    if mode not in MODES:
        raise Invalid(f"Invalid attaching mode '{mode[:10]}': it must be one of {', '.join(MODES)}.", field="mode")
    if volume.is_readonly and mode == "rw":
        raise Invalid(f"Volume {volume.uuid} is readonly: attach it with mode ro.", field="mode")


def _change(row: VolumeAttachment, **values: Any) -> None:
    VolumeAttachment.objects.filter(pk=row.pk).update(**values)
    operations.follow(row.volume)
