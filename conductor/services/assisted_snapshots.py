"""Snapshots that a storage service asks for while a server has the volume: under the id that the service chose.

Hosts here need not turn their guests to another file: the volume's own data are copied, as for anybody's snapshot.
"""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.journal import foreign_locks
from conductor.services import volume_snapshots, volumes
from conductor.services.volume_quotas import require_room
from conductor.transactions import write_tx
from conductor.volume import snapshots
from conductor.volume.models import Snapshot, Volume
from conductor.volume.queries import Usage
from conductor.volume.snapshots import SnapshotWish
from conductor.volume.states import CREATING, DELETING, IN_USE


def take(context: RequestContext, volume_id: str, snapshot_id: UUID) -> Snapshot:
    """Have the data of a server's volume kept, in the volume's project.

    Raises Invalid for a volume that no server or more than one has, Conflict for a taken id, QuotaExceeded.
    """
    try:
        with write_tx():
            volume = _lent(volume_id)
            type_name = volumes.type_name_of(volume)
            require_room(volume.project_id, Usage(0, volume.size_gb, 1), type_name=type_name)
            return volume_snapshots.begin(context, volume, SnapshotWish(uuid=snapshot_id))
    except IntegrityError:
        raise Conflict(f"Snapshot {snapshot_id} is there already.") from None


def drop(snapshot_id: str, volume_id: str) -> None:
    """Delete such a snapshot; one that is still being taken goes once it is.

    Raises NotFound, Invalid for a volume as in `take` and for another one than the snapshot's, ResourceLocked.
    """
    with write_tx():
        volume, wanted = _lent(volume_id), uuid_or_none(snapshot_id)
        row = Snapshot.objects.select_for_update().filter(uuid=wanted).first() if wanted else None
        if row is None:
            raise NotFound(f"Snapshot {snapshot_id[:60]} could not be found.")
        if row.volume_id != volume.pk:
            raise Invalid(f"Snapshot {row.uuid} is not one of volume {volume.uuid}.", field="delete_info.volume_id")
        if snapshots.turn(row.uuid, (CREATING,), DELETING):
            return  # its workflow finds nothing to mark, and the upkeep of the storage takes what it has left
        foreign_locks.require_free(f"snapshot:{row.uuid}")
        snapshots.begin_deleting(row)
    snapshots.settle(row.uuid)


def _lent(volume_id: str) -> Volume:
    """A volume that one server has, whosever it is. Raises Invalid."""
    wanted = uuid_or_none(volume_id)
    volume = Volume.objects.filter(uuid=wanted).first() if wanted else None
    holders = volume.attachments.filter(status=IN_USE, instance_uuid__isnull=False).count() if volume else 0
    if volume is None or holders != 1:
        how = "more than one server has it" if holders else "no server has it"
        raise Invalid(f"No snapshot of volume {volume_id[:60]} with the help of its server: {how}.", field="volume_id")
    return volume
