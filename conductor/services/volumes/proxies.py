"""Proxy of the volume service in the Compute API's old form: volumes and snapshots."""

from __future__ import annotations

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.services.volumes import creation, volumes
from conductor.services.volumes import snapshots as volume_snapshots
from conductor.services.volumes.creation import VolumeAsk
from conductor.volume import snapshots
from conductor.volume.models import Snapshot, Volume
from conductor.volume.queries import VolumeQuery
from conductor.volume.snapshots import SnapshotCreate, SnapshotQuery

__all__ = ["SnapshotCreate", "VolumeAsk"]


def list_volumes(context: RequestContext, *, limit: int, offset: int = 0) -> list[Volume]:
    """Return the project's volumes, newest first."""
    return volumes.list_visible(context, VolumeQuery(limit=limit + offset))[offset:]


def volume(context: RequestContext, ref: str) -> Volume:
    """Return a volume. Raises NotFound."""
    return volumes.get_visible(context, ref)


def create_volume(context: RequestContext, ask: VolumeAsk) -> Volume:
    """Create a volume. Raises NotFound for an unknown snapshot, Invalid, QuotaExceeded."""
    if ask.snapshot_id:
        snapshots.get_visible(context, ask.snapshot_id)
    if ask.size_gb is None and not ask.snapshot_id:
        raise Invalid("Invalid input received: a volume needs a size, in GB.", field="volume.size")
    return creation.create(context, ask)


def delete_volume(context: RequestContext, ref: str) -> None:
    """Delete a volume. Raises NotFound, Invalid for one in use."""
    volumes.delete(context, ref)


def list_snapshots(context: RequestContext, *, limit: int, offset: int = 0) -> list[Snapshot]:
    """Return the project's snapshots, newest first."""
    return snapshots.list_visible(context, SnapshotQuery(limit=limit, offset=offset))


def snapshot(context: RequestContext, ref: str) -> Snapshot:
    """Return a snapshot. Raises NotFound."""
    return snapshots.get_visible(context, ref)


def create_snapshot(
    context: RequestContext, volume_id: str, requested: SnapshotCreate, *, may_be_in_use: bool
) -> Snapshot:
    """Create a snapshot. Raises NotFound, Invalid for a volume that is not ready, QuotaExceeded."""
    return volume_snapshots.create(context, volume_id, requested, may_be_in_use=may_be_in_use)


def delete_snapshot(context: RequestContext, ref: str) -> None:
    """Delete a snapshot. Raises NotFound, Invalid."""
    volume_snapshots.delete(context, ref)
