"""Volume and snapshot quotas: limits, usage, and checks whether a request fits; also per volume type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from conductor.api_db.models import Quota
from conductor.cells.lookup import API_ALIAS
from conductor.core.errors import Invalid, QuotaExceeded
from conductor.core.messages import message
from conductor.db.transactions import one_at_a_time, write_tx
from conductor.identity.models import Project
from conductor.services.quotas.types import QuotaView
from conductor.volume import types
from conductor.volume.models import VolumeQuotaClass, VolumeType
from conductor.volume.queries import VolumeUsage, usage, usage_by_type

UNLIMITED = -1
DEFAULT_CLASS = "default"
DEFAULTS: Mapping[str, int] = {
    "volumes": 100,
    "gigabytes": 10_000,
    "snapshots": 100,
    "per_volume_gigabytes": UNLIMITED,
    "groups": 100,
    "backups": 100,
    "backup_gigabytes": 10_000,
}
OF_TYPES = ("volumes", "gigabytes", "snapshots")


def known() -> dict[str, int]:
    """Return every resource with its initial limit, including those per type."""
    types.default()
    names = VolumeType.objects.order_by("name").values_list("name", flat=True)
    return {**DEFAULTS, **{f"{resource}_{name}": UNLIMITED for name in names for resource in OF_TYPES}}


def class_limits(name: str = DEFAULT_CLASS) -> dict[str, int]:
    """Return the limits of a class; the default class applies to projects without limits of their own."""
    rows = VolumeQuotaClass.objects.filter(name=name).values_list("resource", "limit")
    return {**known(), **dict(rows)}


def update_class(name: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """Set limits of a class."""
    with write_tx():
        for resource, limit in wanted.items():
            VolumeQuotaClass.objects.update_or_create(name=name, resource=resource, defaults={"limit": limit})
    return class_limits(name)


def limits(project_id: str) -> dict[str, int]:
    """Return every limit of a project by resource."""
    everybodys = class_limits()
    own = Quota.objects.filter(project_id=project_id, resource__in=everybodys).values_list("resource", "limit")
    return everybodys | dict(own)


def show(project_id: str) -> list[QuotaView]:
    """Return every limit of a project with its usage."""
    in_use = asdict(usage(project_id)) | {
        f"{resource}_{name}": amount
        for name, taken in usage_by_type(project_id).items()
        for resource, amount in asdict(taken).items()
    }
    return [QuotaView(name, limit, in_use.get(name, 0)) for name, limit in limits(project_id).items()]


def update(project_id: str, wanted: Mapping[str, int]) -> list[QuotaView]:
    """Set limits of a project. Raises Invalid for an unknown project."""
    if not Project.objects.filter(pk=project_id).exists():
        raise Invalid(f"Project ID {project_id[:60]} is not a valid project.", field="project_id")
    with write_tx():
        for resource, limit in wanted.items():
            Quota.objects.update_or_create(project_id=project_id, resource=resource, defaults={"limit": limit})
    return show(project_id)


def reset(project_id: str) -> None:
    """Reset a project to the default limits."""
    with write_tx():
        Quota.objects.filter(project_id=project_id, resource__in=known()).delete()


def require_room(
    project_id: str, more: VolumeUsage, *, size_gb: int = 0, type_name: str = types.DEFAULT_NAME, is_there: bool = False
) -> None:
    """Raise QuotaExceeded where the request does not fit. Call it in the write transaction that adds it, which is
    serialized.

    `is_there` means that the volume counts already, and is new only to its type.
    """
    one_at_a_time(API_ALIAS, f"volumes of project:{project_id}")
    allowed, taken = limits(project_id), usage(project_id)
    most = allowed["per_volume_gigabytes"]
    if most != UNLIMITED and size_gb > most:
        raise QuotaExceeded(f"Requested volume size {size_gb}G is larger than maximum allowed limit {most}G.")
    if not is_there:
        _require(allowed, taken, more)
    own = {name: allowed[f"{name}_{type_name}"] for name in OF_TYPES if f"{name}_{type_name}" in allowed}
    if any(limit != UNLIMITED for limit in own.values()):
        _require(own, usage_by_type(project_id).get(type_name, VolumeUsage(0, 0)), more, suffix=f"_{type_name}")


def _require(allowed: Mapping[str, int], taken: VolumeUsage, more: VolumeUsage, *, suffix: str = "") -> None:
    for resource, wanted in asdict(more).items():
        limit, there = allowed.get(resource, UNLIMITED), getattr(taken, resource)
        if limit != UNLIMITED and wanted > 0 and there + wanted > limit:
            name = f"{resource}{suffix}"
            raise QuotaExceeded(message("quota.volume_exceeded", name=name, wanted=wanted, used=there, most=limit))
