"""Recovery: notifies again for runs that are due, and resends unanswered commands."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, connections
from django.db.models import Q

from conductor.db.transactions import database_now
from conductor.journal import locks, periodic_leases, statements
from conductor.journal.models import Event, StepRecord, WorkflowRun
from conductor.rpc import broker, outbox
from conductor.workflows.engine import leases

MOST_NOTIFIED_PER_PASS = 200


def sweep(alias: str, *, grace_seconds: float) -> int:
    """Notify conductors of runs in `alias` that were due for `grace_seconds` without an owner. Return how many.

    A run whose owner is alive is left alone, however long its step takes. A run whose lease has expired is due at once.
    """
    outbox.resend_due(alias)
    locks.sweep(alias)
    outbox.hand_over_locks(alias)
    return _notify_conductors(alias, statements.runs_due(connections[alias], grace_seconds, MOST_NOTIFIED_PER_PASS))


def hand_on(alias: str) -> int:
    """Release this process's runs before its regular end, and notify other conductors. Return how many."""
    periodic_leases.end(alias, Q(owner=leases.WORKER))
    return _notify_conductors(alias, leases.let_go(alias))


def go_on_with_given_up() -> int:
    """Release runs that were given up when a database failed, once it is up again. Return how many."""
    freed = 0
    unheard: set[str] = set()
    for alias, run_uuid in leases.given_up():
        if alias in unheard:
            continue
        try:
            freed += _notify_conductors(alias, leases.let_go_of(alias, run_uuid))
        except (OperationalError, InterfaceError):  # still down: retried later
            unheard.add(alias)
    return freed


def take_over_from(alias: str, life: str) -> int:
    """Release the runs in `alias` of a process that has just died, and notify conductors. Return how many."""
    periodic_leases.end(alias, Q(owner__endswith=f":{life}"))
    return _notify_conductors(alias, leases.expire_leases_of(alias, life))


def _notify_conductors(alias: str, runs: Sequence[tuple[str, UUID | str]]) -> int:
    for queue, run_uuid in runs:
        broker.notify_conductor(queue, {"alias": alias, "run_uuid": str(run_uuid)})
    return len(runs)


def take_over_everything(alias: str) -> int:
    """Release a dead predecessor's runs and send its commands again, at the start of a process that is the only one."""
    outbox.send_all_again(alias)
    periodic_leases.end(alias, ~Q(owner=leases.WORKER))
    return leases.expire_earlier(alias)


def unresponsive_reason(alias: str, run: WorkflowRun, record_pk: int) -> str:
    """Return why the host of a command counts as unresponsive: no answer or progress for too long. Empty if it does
    not.
    """
    long_ago = database_now(-settings.NOVELLA_COMMAND_SECONDS)
    record = StepRecord.objects.using(alias).filter(pk=record_pk, started_at__lt=long_ago).first()
    if record is None:
        return ""
    rows = Event.objects.using(alias).filter(run_uuid=run.uuid, kind="step.progress", created_at__gte=long_ago)
    if rows.exists():
        return ""
    seconds = f"{settings.NOVELLA_COMMAND_SECONDS:g} seconds"
    return f"Host {record.host} is up, but has reported nothing about this for {seconds}: its driver seems to hang."
