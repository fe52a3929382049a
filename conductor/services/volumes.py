"""Volumes as people make, change and delete them: limits are counted, and what a workflow works on is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.api_db.models import Quota
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, QuotaExceeded
from conductor.core.request_spec import ImageSpec
from conductor.identity.models import Project
from conductor.journal import foreign_locks
from conductor.services.values import QuotaView
from conductor.transactions import write_tx
from conductor.volume import operations
from conductor.volume.models import Volume
from conductor.volume.operations import VolumeWish
from conductor.volume.queries import Usage, VolumeQuery, get_visible, list_visible, usage
from conductor.volume.states import STATUSES

__all__ = ["VolumeQuery", "VolumeWish", "get_visible", "list_visible"]

UNLIMITED = -1
DEFAULTS: Mapping[str, int] = {
    "volumes": 100,
    "gigabytes": 10_000,
    "per_volume_gigabytes": UNLIMITED,
    # Nothing counts against these here; clients set them and read them back.
    "snapshots": 100,
    "backups": 100,
    "backup_gigabytes": 10_000,
    "groups": 100,
}
MOST_METADATA = 128
UNDER_LOCK = "volume:{}"


def create(context: RequestContext, wish: VolumeWish) -> Volume:
    """Have a new volume. Raises QuotaExceeded."""
    _check_metadata(wish.metadata)
    with write_tx():
        require_room(context.project_id, Usage(1, wish.size_gb), size_gb=wish.size_gb)
        volume = operations.insert(context, wish)
    operations.settle(volume.uuid)  # what is told is how it was asked for; the next look sees it available
    return volume


def delete(context: RequestContext, volume_id: str) -> None:
    """Delete a volume and its data. Raises NotFound, Invalid for one in use, ResourceLocked."""
    with write_tx():
        volume = _free_to_change(context, volume_id)
        operations.begin_deleting(volume)
    operations.settle(volume.uuid)


def extend(context: RequestContext, volume_id: str, size_gb: int) -> None:
    """Make a volume larger. Raises NotFound, Invalid for one that is not free, QuotaExceeded, ResourceLocked."""
    with write_tx():
        volume = _free_to_change(context, volume_id)
        require_room(volume.project_id, Usage(0, max(0, size_gb - volume.size_gb)), size_gb=size_gb)
        operations.begin_extending(volume, size_gb)
    operations.settle(volume.uuid)


def update(context: RequestContext, volume_id: str, values: Mapping[str, Any]) -> Volume:
    """Change the name, the description, the metadata or whether it is bootable. Raises NotFound, Invalid."""
    _check_metadata(values.get("metadata", {}))
    with write_tx():
        operations.describe(get_visible(context, volume_id), **values)
    return get_visible(context, volume_id)


def reset_status(context: RequestContext, volume_id: str, status: str) -> None:
    """An operator says what a volume's status is. Raises NotFound, Invalid, ResourceLocked while a workflow has it."""
    if status not in STATUSES:
        raise Invalid(f"Invalid status {status[:60]}: it must be one of {', '.join(STATUSES)}.", field="status")
    with write_tx():
        operations.describe(_free_to_change(context, volume_id), status=status)


def limits(project_id: str) -> dict[str, int]:
    """Every limit of a project by resource."""
    own = Quota.objects.filter(project_id=project_id, resource__in=DEFAULTS).values_list("resource", "limit")
    return {**DEFAULTS, **dict(own)}


def quotas(project_id: str) -> list[QuotaView]:
    """Every limit of a project with what counts against it."""
    taken = usage(project_id)
    in_use = {"volumes": taken.volumes, "gigabytes": taken.gigabytes}
    return [QuotaView(name, limit, in_use.get(name, 0)) for name, limit in limits(project_id).items()]


def update_quotas(project_id: str, wanted: Mapping[str, int]) -> list[QuotaView]:
    """Set limits of a project. Raises Invalid for an unknown project."""
    if not Project.objects.filter(pk=project_id).exists():
        raise Invalid(f"Project ID {project_id} is not a valid project.", field="project_id")
    with write_tx():
        for resource, limit in wanted.items():
            Quota.objects.update_or_create(project_id=project_id, resource=resource, defaults={"limit": limit})
    return quotas(project_id)


def reset_quotas(project_id: str) -> None:
    """Give a project the default limits again."""
    with write_tx():
        Quota.objects.filter(project_id=project_id, resource__in=DEFAULTS).delete()


def require_room(project_id: str, more: Usage, *, size_gb: int) -> None:
    """In the write transaction that adds it: on the way out nobody else has taken the room."""
    allowed, taken = limits(project_id), usage(project_id)
    if allowed["per_volume_gigabytes"] != UNLIMITED and size_gb > allowed["per_volume_gigabytes"]:
        raise QuotaExceeded(
            f"Requested volume size {size_gb}G is larger than maximum allowed limit {allowed['per_volume_gigabytes']}G."
        )
    for resource in ("volumes", "gigabytes"):
        limit, wanted, there = allowed[resource], getattr(more, resource), getattr(taken, resource)
        if limit != UNLIMITED and wanted and there + wanted > limit:
            raise QuotaExceeded(
                f"Quota exceeded for {resource}: requested {wanted}, but already used {there} of {limit} {resource}."
            )


def image_metadata(image: ImageSpec) -> dict[str, str]:
    """What a volume remembers of the image that its data come from."""
    return {
        **{name: str(value) for name, value in image.properties.items()},
        "image_id": image.image_id,
        "image_name": image.name,
        "checksum": image.checksum,
        "container_format": image.container_format,
        "disk_format": image.disk_format,
        "min_disk": str(image.min_disk_gb),
        "min_ram": str(image.min_ram_mb),
        "size": str(image.size),
    }


OF_IMAGES = ("image_id", "image_name", "checksum", "container_format", "disk_format", "min_disk", "min_ram", "size")


def image_of(volume: Volume) -> ImageSpec:
    """The image that a volume remembers, as scheduler and driver see it; an empty one for none."""
    known = volume.image_metadata
    return ImageSpec(
        name=known.get("image_name", ""),
        min_ram_mb=int(known.get("min_ram", 0)),
        properties={name: value for name, value in known.items() if name not in OF_IMAGES},
    )


def settle_all() -> int:
    """Finish volumes that a dead process left half created, grown or deleted; returns how many."""
    return operations.settle_all()


def _free_to_change(context: RequestContext, volume_id: str) -> Volume:
    """The volume, held until the transaction ends. Raises NotFound, ResourceLocked naming who works on it."""
    volume = get_visible(context, volume_id)
    Volume.objects.select_for_update().filter(pk=volume.pk).first()
    foreign_locks.require_free(UNDER_LOCK.format(volume.uuid))
    return get_visible(context, volume_id)


def _check_metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > MOST_METADATA:
        raise Invalid(f"A volume can have up to {MOST_METADATA} metadata items, not {len(metadata)}.", field="metadata")
