"""Transfers of volumes between projects: offered with a key, and accepted with it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import write_tx
from conductor.volume.lists import order_of, page
from conductor.volume.models import Snapshot, Transfer, Volume
from conductor.volume.operations import counted_status, turn
from conductor.volume.states import AVAILABLE, AWAITING_TRANSFER

KEY_BYTES = 16
SORT_KEYS = {"id": "uuid", "name": "name", "volume_id": "volume__uuid", "created_at": "created_at"}


@dataclass(frozen=True, slots=True)
class TransferQuery:
    """Query of transfers. `filters` are equality by name, volume_id or id."""

    filters: Mapping[str, str] = field(default_factory=dict)
    all_projects: bool = False
    sort: Sequence[tuple[str, bool]] = (("created_at", False),)
    limit: int | None = None
    marker: str = ""
    offset: int = 0


def get_visible(context: RequestContext, transfer_id: str) -> Transfer:
    """Return one of the project's own open transfers. Raises NotFound."""
    row = _open(_visible(context), transfer_id)
    if row is None:
        raise _missing(transfer_id)
    return row


def list_visible(context: RequestContext, query: TransferQuery) -> list[Transfer]:
    """Return one page of the project's offers. Raises Invalid."""
    rows = anchors = _visible(context).filter(is_accepted=False)
    if not (context.is_admin and query.all_projects):
        rows = rows.filter(source_project_id=context.project_id)
    for name, value in query.filters.items():
        column = {"volume_id": "volume__uuid", "id": "uuid"}.get(name, "name")
        wanted = uuid_or_none(value) if column != "name" else value
        rows = rows.filter(**{column: wanted}) if wanted is not None else rows.none()
    order = order_of(SORT_KEYS, query.sort)
    limit = None if query.limit is None else query.offset + query.limit
    return page(rows, order, anchors=anchors, marker=query.marker, limit=limit)[query.offset :]


def create(context: RequestContext, volume: Volume, name: str | None, *, with_snapshots: bool) -> tuple[Transfer, str]:
    """Create a transfer, and return it with its key, shown only here; inside a write transaction. Raises Invalid.

    It replaces the volume's last one, which was accepted.
    """
    if volume.group_uuid is not None or not turn(volume.uuid, (AVAILABLE,), AWAITING_TRANSFER):
        raise Invalid(
            f"Invalid volume: Volume {volume.uuid} status must be available, but is {counted_status(volume)}."
        )
    key, salt = secrets.token_hex(KEY_BYTES), secrets.token_hex(KEY_BYTES)
    Transfer.objects.filter(volume=volume).delete()
    row = Transfer.objects.create(
        volume=volume,
        name=name,
        salt=salt,
        key_hash=_hash(salt, key),
        with_snapshots=with_snapshots,
        source_project_id=volume.project_id,
        created_at=timezone.now(),
    )
    return row, key


def withdraw(context: RequestContext, transfer_id: str) -> None:
    """Withdraw an offer: the volume stays with its project. Raises NotFound."""
    with write_tx():
        row = get_visible(context, transfer_id)
        turn(row.volume.uuid, (AWAITING_TRANSFER,), AVAILABLE)
        Transfer.objects.filter(pk=row.pk).delete()


def find(transfer_id: str, key: str) -> Transfer:
    """Return the open transfer of that id, if the key is right. Raises NotFound, Invalid."""
    row = _open(Transfer.objects.select_related("volume__volume_type"), transfer_id)
    if row is None:
        raise _missing(transfer_id)
    if not hmac.compare_digest(row.key_hash, _hash(row.salt, key)):
        raise Invalid(f"Attempt to transfer volume {row.volume.uuid} with invalid auth key.", field="accept.auth_key")
    return row


def take(context: RequestContext, row: Transfer) -> None:
    """Give the volume to the caller; inside the write transaction that counted the caller's quota. Raises Invalid."""
    volumes = Volume.objects.filter(uuid=row.volume.uuid)
    if not turn(row.volume.uuid, (AWAITING_TRANSFER,), AVAILABLE):
        raise Invalid(f"Invalid volume: Volume {row.volume.uuid} is not awaiting a transfer any more.")
    volumes.update(project_id=context.project_id, user_id=context.user_id)
    if row.with_snapshots:
        Snapshot.objects.filter(volume=row.volume).update(project_id=context.project_id, user_id=context.user_id)
    Transfer.objects.filter(pk=row.pk).update(is_accepted=True, destination_project_id=context.project_id)


def _hash(salt: str, key: str) -> str:
    return hashlib.sha256(f"{salt}:{key}".encode()).hexdigest()


def _open(rows: QuerySet[Transfer], transfer_id: str) -> Transfer | None:
    wanted: UUID | None = uuid_or_none(transfer_id)
    return rows.filter(uuid=wanted, is_accepted=False).first() if wanted else None


def _missing(transfer_id: str) -> NotFound:
    return NotFound(f"Transfer {transfer_id[:60]} could not be found.")


def _visible(context: RequestContext) -> QuerySet[Transfer]:
    rows = Transfer.objects.select_related("volume")
    return rows if context.is_admin else rows.filter(source_project_id=context.project_id)
