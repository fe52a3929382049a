"""Adoption of unmanaged files of the storage as volumes and snapshots, and its reverse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.db.transactions import write_tx
from conductor.services.quotas.volume_quotas import require_room
from conductor.services.volumes import snapshots as volume_snapshots
from conductor.services.volumes import volumes
from conductor.volume import capabilities, operations, snapshots, types, unmanaged_files
from conductor.volume.models import Snapshot, Volume, VolumeType
from conductor.volume.operations import VolumeCreate
from conductor.volume.queries import VolumeUsage, get_visible
from conductor.volume.snapshots import SnapshotCreate
from conductor.volume.states import AVAILABLE, CREATING, UNMANAGING
from conductor.volume.unmanaged_files import StorageFile

ZONE = "nova"


@dataclass(frozen=True, slots=True)
class ManageAsk:
    """A volume to create from a file."""

    host: str
    source_name: str
    name: str = ""
    description: str | None = None
    type_ref: str | None = None
    availability_zone: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    is_bootable: bool = False


def require_host(host: str) -> None:
    """Raise Invalid for another storage than the existing one."""
    if host not in (capabilities.HOST, capabilities.BACKEND):
        raise Invalid(f"Host {host[:60]} has no storage: it must be {capabilities.BACKEND}.", field="host")


def unmanaged() -> list[StorageFile]:
    """Return the files of the storage that no volume has, by name."""
    return [file for file in unmanaged_files.found(unmanaged_files.VOLUME) if file.owner is None]


def manage(context: RequestContext, ask: ManageAsk) -> Volume:
    """Adopt a file as a volume, all or nothing. Raises Invalid, NotFound, Conflict, QuotaExceeded."""
    require_host(ask.host)
    if ask.availability_zone not in (None, "", ZONE):
        raise Invalid(
            f"Availability zone '{ask.availability_zone}' is invalid: volumes are in the zone {ZONE}.",
            field="volume.availability_zone",
        )
    volumes.check_metadata(ask.metadata)
    wanted = _type_of(context, ask.type_ref)
    file = unmanaged_files.require(unmanaged_files.VOLUME, ask.source_name)
    requested = VolumeCreate(
        size_gb=file.size_gb,
        name=ask.name,
        description=ask.description,
        metadata=ask.metadata,
        is_bootable=ask.is_bootable,
        volume_type_id=wanted.pk,
        is_multiattach=types.is_shareable(wanted),
    )
    with _given_back(unmanaged_files.VOLUME, ask.source_name) as adopted, write_tx():
        require_room(context.project_id, VolumeUsage(1, file.size_gb), size_gb=file.size_gb, type_name=wanted.name)
        volume = operations.insert(context, requested)
        unmanaged_files.adopt(unmanaged_files.VOLUME, ask.source_name, volume.uuid, file.size_gb)
        adopted.append(volume.uuid)
        operations.turn(volume.uuid, (CREATING,), AVAILABLE)
    return get_visible(context, str(volume.uuid))


def manage_snapshot(context: RequestContext, volume_id: str, source_name: str, requested: SnapshotCreate) -> Snapshot:
    """Adopt a file as a snapshot. Raises what `manage` raises."""
    volumes.check_metadata(requested.metadata)
    get_visible(context, volume_id)  # an unknown volume is reported before a wrong name
    file = unmanaged_files.require(unmanaged_files.SNAPSHOT, source_name)
    with _given_back(unmanaged_files.SNAPSHOT, source_name) as adopted, write_tx():
        volume = get_visible(context, volume_id)
        if file.size_gb > volume.size_gb:
            raise Invalid(
                f"File {source_name[:60]} has {file.size_gb} GB: it is no snapshot of a volume of {volume.size_gb} GB.",
                field="snapshot.ref",
            )
        more = VolumeUsage(0, volume.size_gb, 1)
        require_room(volume.project_id, more, type_name=volumes.type_name_of(volume))
        row = snapshots.insert(context, volume, requested)
        unmanaged_files.adopt(unmanaged_files.SNAPSHOT, source_name, row.uuid, volume.size_gb)
        adopted.append(row.uuid)
        snapshots.turn(row.uuid, (CREATING,), AVAILABLE)
    return snapshots.get_visible(context, str(row.uuid))


def unmanage(context: RequestContext, volume_id: str) -> None:
    """Delete a volume's row and keep its file. Raises NotFound, Invalid for one that is not free, ResourceLocked."""
    with write_tx():
        volume = volumes.free_to_change(context, volume_id)
        if volume.snapshots.exists():
            raise Invalid(f"Invalid volume: Volume {volume.uuid} still has snapshots: unmanage or delete them first.")
        if volume.group_uuid is not None or not operations.turn(volume.uuid, (AVAILABLE,), UNMANAGING):
            raise Invalid(
                f"Invalid volume: Volume {volume.uuid} must be available and in no group to be unmanaged, "
                f"but is {operations.counted_status(volume)}."
            )
    operations.settle(volume.uuid)


def unmanage_snapshot(context: RequestContext, snapshot_id: str) -> None:
    """Delete a snapshot's row and keep its file. Raises NotFound, Invalid, ResourceLocked."""
    with write_tx():
        row = volume_snapshots.free_to_change(context, snapshot_id)
        snapshots.begin_unmanaging(row)
    snapshots.settle(row.uuid)


def _type_of(context: RequestContext, type_ref: str | None) -> VolumeType:
    try:
        wanted = types.named(context, type_ref) if type_ref else types.default()
    except NotFound:
        raise NotFound(f"Volume type with name {str(type_ref)[:60]} could not be found.") from None
    volumes.check_type(wanted, field="volume.volume_type")
    return wanted


@contextmanager
def _given_back(kind: str, name: str) -> Iterator[list[UUID]]:
    """Rename adopted files back if the row could not be created."""
    adopted: list[UUID] = []
    try:
        yield adopted
    except BaseException:
        for uuid in adopted:
            unmanaged_files.give_back(kind, uuid, name)
        raise
