"""The net under every doorbell: rings again for runs that are due, and sends unanswered commands again."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import InterfaceError, OperationalError
from django.db.models import F, Q
from django.db.models.functions import Now

from conductor.journal import foreign_locks
from conductor.journal.models import WorkflowRun
from conductor.rpc import broker, outbox
from conductor.workflows import leases

MOST_RINGS_PER_PASS = 200


def sweep(alias: str, *, grace_seconds: float) -> int:
    """Ring for every run in `alias` that has been due for `grace_seconds` without an owner; returns how many.

    A run whose owner is alive is left alone, however long its step takes; one whose lease ran out is due at once.
    """
    outbox.resend_due(alias)
    foreign_locks.sweep(alias)
    outbox.hand_over_locks(alias)
    overdue = Q(owner__isnull=True, wake_at__lte=Now() - timedelta(seconds=grace_seconds))
    orphaned = Q(owner__isnull=False, lease_expires_at__lt=Now())
    due = WorkflowRun.objects.using(alias).live().filter(overdue | orphaned)
    rings = list(due.order_by(F("wake_at").asc()).values_list("queue", "uuid")[:MOST_RINGS_PER_PASS])
    for queue, run_uuid in rings:
        broker.ring(queue, {"alias": alias, "run_uuid": str(run_uuid)})
    return len(rings)


def hand_on(alias: str) -> int:
    """At the clean end of a process: what it still owned is free at once, and others are rung; returns how many."""
    return _ring(alias, leases.let_go(alias))


def go_on_with_given_up() -> int:
    """What was given up because a database failed is free as soon as that one answers again; returns how many."""
    freed = 0
    unheard: set[str] = set()
    for alias, run_uuid in leases.given_up():
        if alias in unheard:
            continue
        try:
            freed += _ring(alias, leases.let_go_of(alias, run_uuid))
        except (OperationalError, InterfaceError):  # still away: asked again
            unheard.add(alias)
    return freed


def take_over_from(alias: str, life: str) -> int:
    """What a process that has just died owned in `alias` is free at once, and somebody is rung; returns how many."""
    return _ring(alias, leases.bury(alias, life))


def _ring(alias: str, runs: list[tuple[str, UUID]]) -> int:
    for queue, run_uuid in runs:
        broker.ring(queue, {"alias": alias, "run_uuid": str(run_uuid)})
    return len(runs)


def take_over_everything(alias: str) -> int:
    """At the start of a process that knows it is alone: what a dead predecessor held or sent is due now."""
    outbox.send_all_again(alias)
    return leases.expire_all(alias)
