"""Leases of runs: claiming with a fencing token, renewal, and release."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter, defaultdict
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, connections
from django.db.models import Q

from conductor import process_names
from conductor.db.transactions import database_now, one_at_a_time, write_tx
from conductor.journal import statements
from conductor.journal.models import WorkflowRun
from conductor.journal.statements import NextStep

log = logging.getLogger(__name__)


def _take_new_name() -> None:
    global WORKER
    WORKER = process_names.mine()


WORKER = process_names.mine()
os.register_at_fork(after_in_child=_take_new_name)

_busy: Counter[tuple[str, UUID]] = Counter()
_busy_lock = threading.Lock()
_given_up: set[tuple[str, UUID]] = set()


def claim(alias: str, run_uuid: UUID | str) -> WorkflowRun | None:
    """Become the owner of a run that is due and has none. None when there is nothing to do.

    The new owner's token is the id of its grant, which is higher than any token granted before in this database.
    """
    if next_step_if_due(alias, run_uuid) is None:
        return None
    with write_tx(alias):
        return take(alias, run_uuid)


def next_step_if_due(alias: str, run_uuid: UUID | str) -> NextStep | None:
    """Return the next step of a run that waits for an owner. Most duplicate notifications end here, without a write."""
    return statements.next_step_if_due(connections[alias], run_uuid)


def take(alias: str, run_uuid: UUID | str) -> WorkflowRun | None:
    """Become the owner of a run if it is due. Call it inside `write_tx(alias)`."""
    return statements.claim(connections[alias], run_uuid, WORKER, settings.NOVELLA_LEASE_SECONDS)


def renew_token(alias: str, run: WorkflowRun) -> None:
    """Raise the owner's fencing token, so that a deferred command cannot take effect after later commands.

    Call it inside a fenced transaction on the journal.
    """
    connection = connections[alias]
    ((token,),) = statements.GRANTS.run(connection, [(run.pk, WORKER, "a deferred command is waiting")])
    statements.RUNS.update(connection, run.pk, fencing_token=token)
    run.fencing_token = token


class LeaseHeartbeat:
    """Context in which the heartbeat renews this worker's lease of one run.

    It renews only this lease. A run that was given up because its database failed still has this worker as its owner,
    and its lease must expire although the worker lives.
    """

    def __init__(self, alias: str, run_uuid: UUID | str) -> None:
        self._work = alias, run_uuid if isinstance(run_uuid, UUID) else UUID(run_uuid)

    def __enter__(self) -> None:
        with _busy_lock:
            _busy[self._work] += 1

    def __exit__(self, *exc: object) -> None:
        with _busy_lock:
            _busy[self._work] -= 1
            if not _busy[self._work]:
                del _busy[self._work]


def renew_all() -> None:
    """Renew the leases of current runs, with one statement per database."""
    at_work: defaultdict[str, list[UUID]] = defaultdict(list)
    with _busy_lock:
        for alias, run_uuid in _busy:
            at_work[alias].append(run_uuid)
    for alias, run_uuids in at_work.items():
        try:
            with write_tx(alias):
                mine = WorkflowRun.objects.using(alias).live().filter(owner=WORKER, uuid__in=run_uuids)
                mine.update(lease_expires_at=database_now(settings.NOVELLA_LEASE_SECONDS))
        # runs of that cell will be taken over; those of other cells must not
        except (OperationalError, InterfaceError):
            log.warning("leases not renewed: alias=%s", alias, exc_info=True)


def give_back(alias: str, run_uuid: UUID | str) -> None:
    """End this worker's lease of one run, so that the next worker claims it."""
    with write_tx(alias):
        mine = WorkflowRun.objects.using(alias).live().filter(uuid=run_uuid, owner=WORKER)
        mine.update(lease_expires_at=database_now(-1), wake_at=database_now())


def give_up(alias: str, run_uuid: UUID | str) -> None:
    """Remember a run that this worker gave up because its database failed. This worker still has the lease."""
    with _busy_lock:
        _given_up.add((alias, run_uuid if isinstance(run_uuid, UUID) else UUID(run_uuid)))


def given_up() -> list[tuple[str, UUID]]:
    """Return runs that were given up and that this process does not execute again."""
    with _busy_lock:
        return sorted(_given_up - set(_busy))


def let_go_of(alias: str, run_uuid: UUID) -> list[tuple[str, UUID]]:
    """End the lease of a run that was given up. Return its queue and uuid, or nothing if it has a new owner."""
    freed = _end(alias, Q(owner=WORKER, uuid=run_uuid))
    with _busy_lock:
        _given_up.discard((alias, run_uuid))
    return freed


def let_go(alias: str) -> list[tuple[str, UUID]]:
    """End this worker's leases in `alias` before its process ends. Return queue and uuid of those runs."""
    return _end(alias, Q(owner=WORKER))


def expire_leases_of(alias: str, life: str) -> list[tuple[str, UUID]]:
    """End the leases in `alias` of an earlier life of a process. Return queue and uuid of those runs.

    If several processes notice, one of them ends the leases. If the process is alive after all, its token is refused
    once another worker claims.
    """
    left = Q(owner__endswith=f":{life}", lease_expires_at__gt=database_now())
    owned = WorkflowRun.objects.using(alias).live().filter(left)
    if not owned.exists():  # the typical case: no write then
        return []
    with write_tx(alias):
        # All watchers notice at once. The second one must not touch a row: a claim skips locked rows, and the run would
        # wait for the sweep.
        one_at_a_time(alias, f"life:{life}")
        return _end(alias, left) if owned.exists() else []


def _end(alias: str, whose: Q) -> list[tuple[str, UUID]]:
    with write_tx(alias):
        mine = WorkflowRun.objects.using(alias).live().filter(whose).select_for_update().order_by("pk")
        runs = list(mine.values_list("queue", "uuid"))
        if runs:
            mine.update(lease_expires_at=database_now(-1), wake_at=database_now())
    return runs


def expire_earlier(alias: str) -> int:
    """End every lease in `alias` except this life's, for a process that knows that it is the only one. Return how many.

    Its own workers may start before this call, and may have claimed runs already.
    """
    with write_tx(alias):
        owned = WorkflowRun.objects.using(alias).live().filter(owner__isnull=False).exclude(owner=WORKER)
        return owned.update(lease_expires_at=database_now(-1), wake_at=database_now())
