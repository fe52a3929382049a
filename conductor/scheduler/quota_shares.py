"""What an instance counts for in its project's quota while it changes its size; inside a fenced API transaction."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django.db.models import Sum
from django.db.models.functions import Coalesce

from conductor.api_db.models import InstanceMapping
from conductor.core.errors import QuotaExceeded
from conductor.core.request_spec import FlavorSpec
from conductor.transactions import one_at_a_time

ALIAS = "default"
UNLIMITED = -1


def grow(instance_uuid: UUID | str, *, old: FlavorSpec, new: FlavorSpec, limits: Mapping[str, int]) -> None:
    """Count the larger of both sizes from now on. Raises QuotaExceeded when the growth does not fit `limits`."""
    mapping = InstanceMapping.objects.get(instance_uuid=instance_uuid)
    one_at_a_time(ALIAS, f"project:{mapping.project_id}")
    refuse_excess(mapping.project_id, str(instance_uuid), new, limits)
    take(instance_uuid, max(old.vcpus, new.vcpus), max(old.memory_mb, new.memory_mb))


def refuse_excess(project_id: str, instance_uuid: str, new: FlavorSpec, limits: Mapping[str, int]) -> None:
    """Raises QuotaExceeded when the project with this instance in its new size is above `limits` (cores, ram)."""
    rows = InstanceMapping.objects.filter(project_id=project_id, is_deleted=False)
    own = rows.filter(instance_uuid=instance_uuid).values("vcpus", "memory_mb").first() or {"vcpus": 0, "memory_mb": 0}
    used = rows.aggregate(cores=Coalesce(Sum("vcpus"), 0), ram=Coalesce(Sum("memory_mb"), 0))
    growth = {"cores": new.vcpus - own["vcpus"], "ram": new.memory_mb - own["memory_mb"]}
    over = [
        name
        for name, more in growth.items()
        if more > 0 and limits.get(name, UNLIMITED) != UNLIMITED and used[name] + more > limits[name]
    ]
    if over:
        names = ", ".join(over)
        asked, there = (", ".join(str(amounts[name]) for name in over) for amounts in (growth, used))
        most = ", ".join(str(limits[name]) for name in over)
        raise QuotaExceeded(
            f"Quota exceeded for {names}: Requested {asked}, but already used {there} of {most} {names}"
        )


def take(instance_uuid: UUID | str, vcpus: int, memory_mb: int) -> None:
    """Have the instance count for that much."""
    InstanceMapping.objects.filter(instance_uuid=instance_uuid).update(vcpus=vcpus, memory_mb=memory_mb)
