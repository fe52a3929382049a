"""Creation of volumes: empty, or with a workflow that copies data of an image, a snapshot or another volume."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.request_spec import ImageSpec
from conductor.db.transactions import write_tx
from conductor.image.operations import image_spec
from conductor.image.queries import get_visible as get_image
from conductor.rpc import outbox
from conductor.services.quotas.volume_quotas import require_room
from conductor.services.volumes import image_mappings, volumes
from conductor.volume import backends, backups, capabilities, groups, messages, operations, snapshots, store, types
from conductor.volume.image_snapshots import SnapshotSource
from conductor.volume.models import Volume, VolumeType
from conductor.volume.operations import VolumeCreate
from conductor.volume.queries import VolumeUsage, get_visible
from conductor.volume.states import AVAILABLE, BACKUP, CREATING, ERROR, IMAGE, IN_USE, SNAPSHOT, VOLUME

FLOW = "create_volume"
ZONE = "nova"
GIB = 1 << 30
# Sources that this cloud does not support.
NOT_OFFERED = ("consistencygroup_id", "cgsnapshot_id")


@dataclass(frozen=True, slots=True)
class VolumeAsk:
    """A volume to create: at most one source, and a size unless a source has one."""

    size_gb: int | None = None
    name: str = ""
    description: str | None = None
    availability_zone: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    type_ref: str | None = None
    image_id: str | None = None
    snapshot_id: str | None = None
    source_volid: str | None = None
    backup_id: str | None = None
    group_id: str | None = None

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> VolumeAsk:
        """Parse a request by the names of the API's fields. Raises Invalid naming what is not offered."""
        for name in NOT_OFFERED:
            if given.get(name):
                raise Invalid(
                    f"Invalid input for field/attribute volume.{name}. There are none of these here: leave it out.",
                    field=f"volume.{name}",
                )
        if str(given.get("multiattach")).lower() in ("true", "1", "on", "yes"):
            raise Invalid(
                'multiattach is decided by the type: choose one with the extra spec multiattach="<is> True".',
                field="volume.multiattach",
            )
        if not any(given.get(name) not in (None, "") for name in ("size", "snapshot_id", "source_volid", "backup_id")):
            raise Invalid("Invalid input for field/attribute volume.size. 'size' is a required property.", field="size")
        size = given.get("size")
        return cls(
            size_gb=None if size in (None, "") else int(size),
            name=given.get("name") or given.get("display_name") or "",
            description=given["description"] if "description" in given else given.get("display_description"),
            availability_zone=given.get("availability_zone"),
            metadata=given.get("metadata") or {},
            type_ref=given.get("volume_type") or None,
            image_id=given.get("imageRef") or given.get("image_id") or None,
            snapshot_id=given.get("snapshot_id") or None,
            source_volid=given.get("source_volid") or None,
            backup_id=given.get("backup_id") or None,
            group_id=given.get("group_id") or None,
        )


@dataclass(frozen=True, slots=True)
class VolumeSource:
    """Source of a volume's data: its minimum size, and the inherited values."""

    kind: str = ""
    uuid: str | None = None
    size_gb: int | None = None  # the size where none is requested
    least_gb: int = 1
    volume_type: VolumeType | None = None
    is_bootable: bool = False
    image_metadata: Mapping[str, str] = field(default_factory=dict)
    image: ImageSpec | None = None
    resource: str = ""


def create(context: RequestContext, ask: VolumeAsk) -> Volume:
    """Create a volume. Raises NotFound and Invalid naming the fault, QuotaExceeded.

    A volume whose type no storage can serve is created in error, with a message that gives the reason.
    """
    source = _source_of(context, ask)
    size_gb = _size(ask, source)
    wanted = _type_of(context, ask, source)
    requested = VolumeCreate(
        size_gb=size_gb,
        name=ask.name,
        description=ask.description,
        availability_zone=_zone(ask),
        metadata=ask.metadata,
        is_bootable=source.is_bootable,
        image_metadata=source.image_metadata,
        source_kind=source.kind,
        source_uuid=source.uuid,
        volume_type_id=wanted.pk,
        is_multiattach=types.is_shareable(wanted),
    )
    return begin(context, requested, source, wanted, group_id=ask.group_id)


def begin(
    context: RequestContext,
    requested: VolumeCreate,
    source: VolumeSource,
    wanted: VolumeType,
    *,
    group_id: str | None = None,
) -> Volume:
    """Create the row, and the workflow that copies data where there are any. Raises QuotaExceeded, StorageFull."""
    volumes.check_metadata(requested.metadata)
    store.require_room()
    with write_tx():
        if group_id:
            requested = replace(requested, group_uuid=groups.open_to(context, group_id, wanted).uuid)
        size = requested.size_gb
        require_room(context.project_id, VolumeUsage(1, size), size_gb=size, type_name=wanted.name)
        if source.kind == SNAPSHOT:
            snapshots.require_available(str(source.uuid))
        volume = operations.insert(context, requested)
        why_not = _why_not(wanted)
        if why_not:
            operations.turn(volume.uuid, (CREATING,), ERROR)
            text = f"schedule allocate volume: Could not find any available weighted backend. ({why_not})"
            messages.create_message(context, messages.NO_BACKEND, "VOLUME", volume.uuid, text)
        elif source.kind:
            _open(context, volume, source)
    if not source.kind:
        operations.settle(volume.uuid)  # the response shows the initial status; the next read shows it available
    return volume


def _open(context: RequestContext, volume: Volume, source: VolumeSource) -> None:
    """Open the run; it waits for workflows on its source."""
    wanted = outbox.NewRun(
        flow=FLOW,
        action=FLOW,
        context=context,
        resources=[f"volume:{volume.uuid}", *([source.resource] if source.resource else [])],
        instance_name=volume.name or str(volume.uuid),
        inputs={"volume_id": str(volume.uuid), "image": asdict(source.image) if source.image else None},
    )
    outbox.open_run(API_ALIAS, wanted, may_wait=True)


def _why_not(wanted: VolumeType) -> str:
    """Return why no storage takes a volume of the type. Empty where one does."""
    unmet = capabilities.unmet(wanted.extra_specs)
    if unmet:
        return f"the type asks for {unmet}"
    return "" if backends.takes_volumes() else "the volume service is disabled"


def _source_of(context: RequestContext, ask: VolumeAsk) -> VolumeSource:
    """Return the source.

    Raises Invalid for two at once, NotFound for an unknown one, Invalid for one that is not ready.
    """
    given = [(name, ref) for name in _SOURCES if (ref := getattr(ask, name))]
    if len(given) > 1:
        names = " and ".join(name for name, _ in given)
        raise Invalid(f"A volume has one source: {names} cannot be combined.", field=f"volume.{given[1][0]}")
    if not given:
        return VolumeSource()
    name, ref = given[0]
    return _SOURCES[name](context, ref)


def _of_image(context: RequestContext, ref: str) -> VolumeSource:
    try:
        row = get_image(context, ref)
    except NotFound:
        raise Invalid(
            f"Invalid image identifier or unable to access requested image {ref[:60]}.", field="imageRef"
        ) from None
    if row.status != "active":
        raise Invalid(f"Invalid image: Image {ref} is not active.", field="volume.imageRef")
    if snapshot_id := image_mappings.root_snapshot(row):
        return _of_listed(context, snapshot_id, ref)
    image = image_spec(row)
    return VolumeSource(
        kind=IMAGE,
        uuid=image.image_id,
        least_gb=max(image.min_disk_gb, -(-image.size // GIB), 1),
        is_bootable=True,
        image_metadata=volumes.image_metadata(image),
        image=image,
    )


def _of_listed(context: RequestContext, snapshot_id: str, image_id: str) -> VolumeSource:
    """Return the snapshot of a volume-backed server's image. Raises NotFound with Cinder's wording."""
    try:
        return _of_snapshot(context, snapshot_id, image_id=image_id)
    except NotFound:
        raise NotFound(f"Nova specific image is found, but boot volume snapshot id:{snapshot_id} not found.") from None


def _of_snapshot(context: RequestContext, ref: str, *, image_id: str = "") -> VolumeSource:
    row = snapshots.get_source(context, ref, image_id=image_id)
    if row.status != AVAILABLE:
        raise Invalid(f"Invalid snapshot: Originating snapshot status must be available, but is {row.status}.")
    return _of_rows(SNAPSHOT, row)


def _of_volume(context: RequestContext, ref: str) -> VolumeSource:
    row = get_visible(context, ref)
    if row.status not in (AVAILABLE, IN_USE):
        raise Invalid(f"Invalid volume: Source volume must be available or in-use, but is {row.status}.")
    return _of_rows(VOLUME, row)


def _of_backup(context: RequestContext, ref: str) -> VolumeSource:
    row = backups.get_visible(context, ref)
    if row.status != AVAILABLE:
        raise Invalid(f"Invalid backup: Backup status must be available to restore, but is {row.status}.")
    facts = row.volume_facts
    return VolumeSource(
        kind=BACKUP,
        uuid=str(row.uuid),
        size_gb=row.size_gb,
        least_gb=row.size_gb,
        is_bootable=bool(facts.get("is_bootable")),
        image_metadata=facts.get("image_metadata") or {},
        resource=f"backup:{row.uuid}",
    )


def _of_rows(kind: str, row: Volume | SnapshotSource) -> VolumeSource:
    return VolumeSource(
        kind=kind,
        uuid=str(row.uuid),
        size_gb=row.size_gb,
        least_gb=row.size_gb,
        volume_type=row.volume_type,
        is_bootable=row.is_bootable,
        image_metadata=row.image_metadata,
        resource=f"{kind}:{row.uuid}",
    )


_SOURCES: Mapping[str, Callable[[RequestContext, str], VolumeSource]] = {
    "image_id": _of_image,
    "snapshot_id": _of_snapshot,
    "source_volid": _of_volume,
    "backup_id": _of_backup,
}


def _size(ask: VolumeAsk, source: VolumeSource) -> int:
    size_gb = ask.size_gb if ask.size_gb is not None else source.size_gb
    if size_gb is None:
        raise Invalid("Invalid input for field/attribute volume.size. 'size' is a required property.", field="size")
    if size_gb < source.least_gb:
        raise Invalid(
            f"Invalid input received: Volume size '{size_gb}'GB cannot be smaller than the {source.kind} size "
            f"{source.least_gb}GB. It must be >= {source.least_gb}.",
            field="volume.size",
        )
    return size_gb


def _type_of(context: RequestContext, ask: VolumeAsk, source: VolumeSource) -> VolumeType:
    if not ask.type_ref:
        wanted = source.volume_type or types.default()
    else:
        try:
            wanted = types.named(context, ask.type_ref)
        except NotFound:
            raise NotFound(f"Volume type with name {ask.type_ref[:60]} could not be found.") from None
    volumes.check_type(wanted, field="volume.volume_type")
    return wanted


def _zone(ask: VolumeAsk) -> str:
    if ask.availability_zone not in (None, "", ZONE):
        raise Invalid(
            f"Availability zone '{ask.availability_zone}' is invalid: volumes are in the zone {ZONE}.",
            field="volume.availability_zone",
        )
    return ZONE
