"""Messages to projects: why an accepted request failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import write_tx
from conductor.volume.lists import order_of, page
from conductor.volume.models import VolumeMessage

KEPT_DAYS = 30
NO_BACKEND = "VOLUME_VOLUME_001_002"  # event ids as clients know them: resource, action, cause
ATTACH_FAILED = "VOLUME_VOLUME_002_001"
COPY_FAILED = "VOLUME_VOLUME_003_013"
SNAPSHOT_FAILED = "VOLUME_SNAPSHOT_006_013"
UPLOAD_FAILED = "VOLUME_VOLUME_004_013"
BACKUP_FAILED = "VOLUME_VOLUME_BACKUP_013_001"
RESTORE_FAILED = "VOLUME_VOLUME_BACKUP_015_001"
SORT_KEYS = {
    "id": "uuid",
    "event_id": "event_id",
    "resource_uuid": "resource_uuid",
    "resource_type": "resource_type",
    "message_level": "level",
    "created_at": "created_at",
    "guaranteed_until": "expires_at",
    "request_id": "request_id",
}
FILTERS = {
    "resource_uuid": "resource_uuid",
    "resource_type": "resource_type",
    "event_id": "event_id",
    "request_id": "request_id",
    "message_level": "level",
}


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """Query of messages. `filters` are equality by a name of FILTERS; "~" begins a part of a text."""

    filters: Mapping[str, str] = field(default_factory=dict)
    sort: Sequence[tuple[str, bool]] = (("created_at", True),)
    limit: int | None = None
    marker: str = ""
    offset: int = 0


def create_message(
    context: RequestContext, event_id: str, resource_type: str, resource_uuid: UUID | str, text: str
) -> None:
    """Create a message; inside the write transaction that stores the resource's result."""
    now = timezone.now()
    VolumeMessage.objects.create(
        project_id=context.project_id,
        request_id=context.request_id,
        event_id=event_id,
        resource_type=resource_type,
        resource_uuid=resource_uuid,
        text=text[:255],
        created_at=now,
        expires_at=now + timedelta(days=KEPT_DAYS),
    )


def get(context: RequestContext, message_id: str) -> VolumeMessage:
    """Return a message. Raises NotFound, also for another project's."""
    wanted = uuid_or_none(message_id)
    found = _visible(context).filter(uuid=wanted).first() if wanted else None
    if found is None:
        raise NotFound(f"Message {message_id[:60]} could not be found.")
    return found


def list_visible(context: RequestContext, query: MessageQuery) -> list[VolumeMessage]:
    """Return one page of the project's messages. Raises Invalid."""
    rows = _visible(context)
    for name, value in query.filters.items():
        rows = rows.filter(_matches(name, value))
    order = order_of(SORT_KEYS, query.sort)
    limit = None if query.limit is None else query.offset + query.limit
    return page(rows, order, anchors=_visible(context), marker=query.marker, limit=limit)[query.offset :]


def delete(context: RequestContext, message_id: str) -> None:
    """Delete a message. Raises NotFound."""
    row = get(context, message_id)
    with write_tx():
        VolumeMessage.objects.filter(pk=row.pk).delete()


def drop_old() -> int:
    """Delete expired messages. Return how many."""
    old = VolumeMessage.objects.filter(expires_at__lt=timezone.now())
    if not old.exists():  # the typical case, which needs no write
        return 0
    with write_tx():
        count, _ = old.delete()
    return count


def _matches(name: str, value: str) -> Q:
    is_part = value.startswith("~")
    if name != "resource_uuid":
        return Q(**{f"{FILTERS[name]}__contains": value[1:]}) if is_part else Q(**{FILTERS[name]: value})
    if is_part:
        raise Invalid("A message is not found by a part of its resource's id.", field="resource_uuid~")
    return Q(resource_uuid=wanted) if (wanted := uuid_or_none(value)) else Q(pk=None)


def _visible(context: RequestContext) -> QuerySet[VolumeMessage]:
    rows = VolumeMessage.objects.filter(expires_at__gte=timezone.now())
    return rows if context.is_admin else rows.filter(project_id=context.project_id)
