"""Export and import of backup records, for operators who lost the database or moved the data."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from conductor.core import json_text
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import write_tx
from conductor.services.quotas.volume_quotas import require_room
from conductor.volume import backup_store, backups
from conductor.volume.models import Backup
from conductor.volume.queries import VolumeUsage
from conductor.volume.states import AVAILABLE

# Clients recognize records of a backup service by the prefix of its name.
SERVICE = "cinder.backup.drivers.novella.FileBackupDriver"
LARGEST_GB = 999_999
_UUIDS = ("id", "volume_id", "data_id")
_UUIDS_OR_NONE = ("snapshot_id", "parent_id")
_TEXTS_OR_NONE = ("name", "description", "container")


@dataclass(frozen=True, slots=True)
class Record:
    """A backup's record as text; the data stay in the storage."""

    service: str
    text: str


def export(context: RequestContext, backup_id: str) -> Record:
    """Export a backup. Raises NotFound, Invalid for a backup that is not complete."""
    row = backups.get_visible(context, backup_id)
    if row.status != AVAILABLE:
        raise Invalid(f"Invalid backup: Backup status must be available to be exported, but is {row.status}.")
    fields = {
        "id": str(row.uuid),
        "data_id": str(row.data_uuid),
        "volume_id": str(row.volume_uuid),
        "snapshot_id": str(row.snapshot_uuid) if row.snapshot_uuid else None,
        "parent_id": str(row.parent.uuid) if row.parent else None,
        "name": row.name,
        "description": row.description,
        "container": row.container,
        "size": row.size_gb,
        "object_count": row.object_count,
        "metadata": row.metadata,
        "volume_facts": row.volume_facts,
        "data_timestamp": row.data_timestamp.astimezone(UTC).isoformat(),
    }
    return Record(SERVICE, base64.b64encode(json.dumps(fields).encode()).decode())


def import_record(context: RequestContext, record: Record) -> Backup:
    """Import a record of data in the storage. Raises Invalid naming the fault, QuotaExceeded."""
    if record.service != SERVICE:
        raise Invalid(f"Backup service {record.service[:80]} is unknown: it must be {SERVICE}.", field="backup_service")
    values = _values(_read(record.text))
    with write_tx():
        _require_new(values)
        parent = _parent_of(values.pop("parent_uuid"))
        require_room(context.project_id, VolumeUsage(0, 0, backups=1, backup_gigabytes=values["size_gb"]))
        now = timezone.now()
        return Backup.objects.create(
            **values,
            parent=parent,
            project_id=context.project_id,
            user_id=context.user_id,
            status=AVAILABLE,
            created_at=now,
            updated_at=now,
        )


def _read(text: str) -> dict[str, Any]:
    try:
        fields = json_text.loads(base64.b64decode(text, validate=True).decode())
    except (binascii.Error, ValueError):
        fields = None
    if not isinstance(fields, dict):
        raise Invalid("The record cannot be read: it must be one that an export gave.", field="backup_url")
    return fields


def _values(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of Backup, each validated. Raises Invalid."""
    for name in (*_UUIDS, *_UUIDS_OR_NONE):
        given = fields.get(name)
        is_left_out = given is None and name in _UUIDS_OR_NONE
        if not is_left_out and uuid_or_none(str(given)) is None:
            raise _wrong(name, "a uuid")
    for name in _TEXTS_OR_NONE:
        given = fields.get(name)
        if given is not None and not (isinstance(given, str) and len(given) <= 255):
            raise _wrong(name, "a text of at most 255 characters, or null")
    size, count = fields.get("size"), fields.get("object_count", 0)
    if type(size) is not int or not 1 <= size <= LARGEST_GB:
        raise _wrong("size", f"a number from 1 to {LARGEST_GB}")
    if type(count) is not int or not 0 <= count < 2**31:
        raise _wrong("object_count", "a number that is not negative")
    for name in ("metadata", "volume_facts"):
        if not isinstance(fields.get(name, {}), dict):
            raise _wrong(name, "an object")
    return {
        "uuid": uuid_or_none(str(fields["id"])),
        "data_uuid": uuid_or_none(str(fields["data_id"])),
        "volume_uuid": uuid_or_none(str(fields["volume_id"])),
        "snapshot_uuid": uuid_or_none(str(fields.get("snapshot_id"))),
        "parent_uuid": uuid_or_none(str(fields.get("parent_id"))),
        **{name: fields.get(name) for name in _TEXTS_OR_NONE},
        "size_gb": size,
        "object_count": count,
        "metadata": {str(key): str(value) for key, value in fields.get("metadata", {}).items()},
        "volume_facts": fields.get("volume_facts", {}),
        "data_timestamp": _moment(fields.get("data_timestamp")),
    }


def _moment(text: Any) -> datetime:
    try:
        found = datetime.fromisoformat(str(text))
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise _wrong("data_timestamp", "a time") from None


def _require_new(values: Mapping[str, Any]) -> None:
    if Backup.objects.filter(uuid=values["uuid"]).exists():
        raise Invalid(f"Invalid backup: Backup {values['uuid']} already exists.", field="backup_url.id")
    if not backup_store.is_whole(values["data_uuid"]):
        raise Invalid(
            f"Invalid backup: the storage has no data of data_id {values['data_uuid']}: bring them there first.",
            field="backup_url.data_id",
        )


def _parent_of(parent_uuid: Any) -> Backup | None:
    if parent_uuid is None:
        return None
    parent = Backup.objects.filter(uuid=parent_uuid).first()
    if parent is None:
        raise Invalid(
            f"Invalid backup: parent_id {parent_uuid} names no backup that is here: import that one first.",
            field="backup_url.parent_id",
        )
    return parent


def _wrong(name: str, wanted: str) -> Invalid:
    return Invalid(f"The record cannot be used: {name} must be {wanted}.", field=f"backup_url.{name}")
