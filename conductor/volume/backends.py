"""The volume services, as operators see and disable them, and the capacity of the storage."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from conductor.core.errors import NotFound
from conductor.db.transactions import write_tx
from conductor.volume import store
from conductor.volume.capabilities import BACKEND, CAPABILITIES, HOST
from conductor.volume.models import Snapshot, Volume, VolumeService

SCHEDULER, VOLUME = "cinder-scheduler", "cinder-volume"
# Both are this product itself: they are up whenever their state can be queried.
SERVICES = ((SCHEDULER, HOST.partition("@")[0]), (VOLUME, HOST))


@dataclass(frozen=True, slots=True)
class VolumeServiceView:
    """A volume service. Enabled unless an operator has disabled it."""

    binary: str
    host: str
    updated_at: datetime
    is_disabled: bool = False
    disabled_reason: str | None = None
    is_frozen: bool = False


@dataclass(frozen=True, slots=True)
class HostTotals:
    """Volumes of a project on a host."""

    project_id: str
    volumes: int = 0
    volume_gb: int = 0
    snapshots: int = 0
    snapshot_gb: int = 0


def list_services(*, binary: str | None = None, host: str | None = None) -> list[VolumeServiceView]:
    """Return all services, or those with this binary and on this host."""
    fields = {(row.binary, row.host): row for row in VolumeService.objects.all()}
    found = []
    for name, where in SERVICES:
        if binary not in (None, name) or host not in (None, where):
            continue
        row = fields.get((name, where))
        now = timezone.now()
        found.append(
            VolumeServiceView(name, where, now, row.is_disabled, row.disabled_reason, row.is_frozen)
            if row
            else VolumeServiceView(name, where, now)
        )
    return found


def update_service(binary: str, host: str, **values: Any) -> VolumeServiceView:
    """Update is_disabled, disabled_reason or is_frozen. Raises NotFound."""
    if (binary, host) not in SERVICES:
        raise NotFound(f"Service {binary[:60]} could not be found on host {host[:60]}.")
    with write_tx():
        VolumeService.objects.update_or_create(
            binary=binary, host=host, defaults={**values, "updated_at": timezone.now()}
        )
    return list_services(binary=binary, host=host)[0]


def takes_volumes() -> bool:
    """Whether a volume service is open to new volumes."""
    return not VolumeService.objects.filter(binary=VOLUME, host=HOST, is_disabled=True).exists()


def totals(host: str) -> list[HostTotals]:
    """Return each project's totals on a host, and the sum of all first. Raises NotFound."""
    if host not in {where for _, where in SERVICES}:
        raise NotFound(f"Host {host[:60]} could not be found.")
    if host != HOST:
        return [HostTotals("(total)")]
    found: dict[str, dict[str, int]] = {}
    for kind, model in (("volume", Volume), ("snapshot", Snapshot)):
        rows = model.objects.values_list("project_id").annotate(count=Count("pk"), total=Coalesce(Sum("size_gb"), 0))
        for project_id, count, total in rows.order_by("project_id"):
            found.setdefault(project_id, {})[f"{kind}s"] = count
            found[project_id][f"{kind}_gb"] = total
    each = [HostTotals(project_id, **amounts) for project_id, amounts in sorted(found.items())]
    names = ("volumes", "volume_gb", "snapshots", "snapshot_gb")
    return [HostTotals("(total)", **{name: sum(getattr(row, name) for row in each) for name in names}), *each]


def pool() -> dict[str, Any]:
    """Return the one pool of storage: its capabilities, size and allocated amount."""
    total_gb, free_gb = store.room_gb()
    promised = Volume.objects.aggregate(total=Coalesce(Sum("size_gb"), 0))["total"]
    return {
        **{name: value in ("True",) if value in ("True", "False") else value for name, value in CAPABILITIES.items()},
        "pool_name": BACKEND,
        "total_capacity_gb": total_gb,
        "free_capacity_gb": free_gb,
        "allocated_capacity_gb": promised,
        "provisioned_capacity_gb": promised,
        "max_over_subscription_ratio": "20.0",
        "reserved_percentage": 0,
        "timestamp": timezone.now().strftime("%Y-%m-%dT%H:%M:%S.%f"),
    }
