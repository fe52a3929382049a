"""The states of load balancers and their parts: whether OVN has them, and whether their members answer."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from django.conf import settings
from django.db.models import F, Q

from conductor.db.transactions import write_tx
from conductor.network.models import BalancerListener, BalancerPool, HealthMonitor, LoadBalancer, PoolMember

ACTIVE, PENDING_CREATE, PENDING_UPDATE, ERROR = "ACTIVE", "PENDING_CREATE", "PENDING_UPDATE", "ERROR"
ONLINE, OFFLINE, DEGRADED, NO_MONITOR = "ONLINE", "OFFLINE", "DEGRADED", "NO_MONITOR"
_OF_ANSWERS: Mapping[str, str] = {"online": ONLINE, "offline": OFFLINE, "error": ERROR}
Check = TypeVar("Check", bound=Hashable)
_CONDITIONS: Mapping[str, Q] = {
    PENDING_CREATE: Q(projected_revision=None),
    PENDING_UPDATE: Q(projected_revision__lt=F("revision_number")),
    ACTIVE: Q(projected_revision__gte=F("revision_number")),
}


def provisioning_status(row: LoadBalancer) -> str:
    """Return ACTIVE if OVN has the load balancer's last change, else a pending status; ERROR without OVN."""
    if not settings.NOVELLA_OVN_NORTHBOUND:
        return ERROR
    if row.projected_revision is None:
        return PENDING_CREATE
    return ACTIVE if row.projected_revision >= row.revision_number else PENDING_UPDATE


def has_provisioning_status(status: str) -> Q:
    """Return the condition of load balancers with this status."""
    nothing = Q(pk__in=[])
    if not settings.NOVELLA_OVN_NORTHBOUND:
        return Q() if status == ERROR else nothing
    return _CONDITIONS.get(status, nothing)


def of_balancer(row: LoadBalancer) -> str:
    """Return the operating status of a load balancer, from those of its listeners."""
    if not row.is_admin_up:
        return OFFLINE
    return _combined(of_listener(listener) for listener in row.listeners.all())


def of_listener(row: BalancerListener) -> str:
    if not row.is_admin_up:
        return OFFLINE
    return of_pool(row.default_pool) if row.default_pool else ONLINE


def of_pool(row: BalancerPool) -> str:
    """Return the operating status of a pool, from those of its members; OFFLINE without members."""
    members = list(row.members.all())
    return _combined(map(of_member, members)) if row.is_admin_up and members else OFFLINE


def of_member(row: PoolMember) -> str:
    return row.operating_status if row.is_admin_up else OFFLINE


def of_monitor(row: HealthMonitor) -> str:
    return ONLINE if row.is_admin_up else OFFLINE


def record_written(revisions: Mapping[str, int]) -> None:
    """Record the revisions of load balancers that OVN has, by id."""
    rows = LoadBalancer.objects.values_list("pk", "uuid", "projected_revision")
    for pk, uuid, projected in rows:
        written = revisions.get(str(uuid))
        if written is not None and written != projected:
            with write_tx():
                LoadBalancer.objects.filter(pk=pk).update(projected_revision=written)


def record_answers(checked: Mapping[str, Check], answers: Mapping[Check, str]) -> None:
    """Record the operating status of members. A member that is not checked, or was not yet, gets NO_MONITOR.

    Args:
        checked: What OVN checks for a member, by the member's id.
        answers: OVN's result of a check.
    """
    for pk, uuid, status in PoolMember.objects.values_list("pk", "uuid", "operating_status"):
        check = checked.get(str(uuid))
        answered = NO_MONITOR if check is None else _OF_ANSWERS.get(answers.get(check, ""), NO_MONITOR)
        if answered != status:
            with write_tx():
                PoolMember.objects.filter(pk=pk).update(operating_status=answered)


def _combined(parts: Iterable[str]) -> str:
    statuses = set(parts)
    failed = statuses & {OFFLINE, ERROR}
    if statuses and failed == statuses:
        return ERROR
    return DEGRADED if failed or DEGRADED in statuses else ONLINE
