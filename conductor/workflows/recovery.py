"""The net under every doorbell: rings again for runs that are due, and sends unanswered commands again."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import InterfaceError, OperationalError, connections
from django.db.models import Q

from conductor.journal import foreign_locks, periodic_leases, sweeps
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
    return _ring(alias, sweeps.runs_due(connections[alias], grace_seconds, MOST_RINGS_PER_PASS))


def hand_on(alias: str) -> int:
    """At the clean end of a process: what it still owned is free at once, and others are rung; returns how many."""
    periodic_leases.end(alias, Q(owner=leases.WORKER))
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
    periodic_leases.end(alias, Q(owner__endswith=f":{life}"))
    return _ring(alias, leases.bury(alias, life))


def _ring(alias: str, runs: Sequence[tuple[str, UUID | str]]) -> int:
    for queue, run_uuid in runs:
        broker.ring(queue, {"alias": alias, "run_uuid": str(run_uuid)})
    return len(runs)


def take_over_everything(alias: str) -> int:
    """At the start of a process that knows it is alone: what a dead predecessor held or sent is due now."""
    outbox.send_all_again(alias)
    periodic_leases.end(alias, ~Q(owner=leases.WORKER))
    return leases.expire_earlier(alias)
