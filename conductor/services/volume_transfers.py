"""Handing volumes from project to project: the quota of the one that takes counts."""

from __future__ import annotations

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.services import volumes
from conductor.services.volume_quotas import require_room
from conductor.transactions import write_tx
from conductor.volume import transfers
from conductor.volume.models import Transfer
from conductor.volume.queries import Usage


def create(
    context: RequestContext, volume_id: str, name: str | None, *, with_snapshots: bool = True
) -> tuple[Transfer, str]:
    """Offer a volume; the transfer and its key. Raises NotFound, Invalid for one that is not free, ResourceLocked."""
    with write_tx():
        volume = volumes.free_to_change(context, volume_id)
        if with_snapshots and any(row.status != "available" for row in volume.snapshots.all()):
            raise Invalid(f"Invalid volume: all snapshots of volume {volume.uuid} must be available to go with it.")
        return transfers.offer(context, volume, name, with_snapshots=with_snapshots)


def accept(context: RequestContext, transfer_id: str, key: str) -> Transfer:
    """Take an offered volume. Raises NotFound, Invalid for a wrong key, QuotaExceeded; then nothing has changed."""
    with write_tx():
        row = transfers.find(transfer_id, key)
        volume = row.volume
        kept = list(volume.snapshots.all()) if row.with_snapshots else []
        if not row.with_snapshots and volume.snapshots.exists():
            raise Invalid(f"Invalid volume: snapshots of volume {volume.uuid} would stay behind: delete them first.")
        size_gb = volume.size_gb + sum(snapshot.size_gb for snapshot in kept)
        more = Usage(1, size_gb, len(kept))
        require_room(context.project_id, more, size_gb=volume.size_gb, type_name=volumes.type_name_of(volume))
        transfers.take(context, row)
    return row
