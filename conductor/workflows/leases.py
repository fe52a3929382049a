"""Who works on a run: claiming with a fencing token, keeping the lease, and letting go."""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connections

from conductor.journal import checkpoints
from conductor.journal.models import LeaseGrant, WorkflowRun
from conductor.transactions import database_now, write_tx

# One life of one process: a new id at every start, so an id is an epoch.
WORKER = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"

_busy: Counter[str] = Counter()
_busy_lock = threading.Lock()


def claim(alias: str, run_uuid: UUID | str) -> WorkflowRun | None:
    """Become the owner of a run that is due and has none; None when there is nothing to do.

    The new owner's token is the id of its grant, higher than any token granted before in this database.
    """
    if not is_due(alias, run_uuid):
        return None
    with write_tx(alias):
        return take(alias, run_uuid)


def is_due(alias: str, run_uuid: UUID | str) -> bool:
    """Whether a run waits for an owner; most doubled doorbells end here, without a write."""
    return checkpoints.is_due(connections[alias], run_uuid)


def take(alias: str, run_uuid: UUID | str) -> WorkflowRun | None:
    """Become the owner of a run if it is due; inside `write_tx(alias)`."""
    return checkpoints.claim(connections[alias], run_uuid, WORKER, settings.NOVELLA_LEASE_SECONDS)


def outrank(alias: str, run: WorkflowRun) -> None:
    """Raise the owner's own token: what is still owed to a host must never come after what follows.

    Inside a fenced transaction on the journal.
    """
    grants = LeaseGrant.objects.using(alias)
    token = grants.create(run=run, owner=WORKER, reason="a command is still owed", granted_at=database_now())
    WorkflowRun.objects.using(alias).filter(pk=run.pk).update(fencing_token=token.pk)
    run.fencing_token = token.pk


class AtWork:
    """While inside, the heartbeat keeps this worker's leases in the database `alias` alive."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def __enter__(self) -> None:
        with _busy_lock:
            _busy[self.alias] += 1

    def __exit__(self, *exc: object) -> None:
        with _busy_lock:
            _busy[self.alias] -= 1


def renew_all() -> None:
    """One statement per database in which this worker owns runs."""
    with _busy_lock:
        aliases = [alias for alias, turns in _busy.items() if turns > 0]
    for alias in aliases:
        with write_tx(alias):
            mine = WorkflowRun.objects.using(alias).live().filter(owner=WORKER)
            mine.update(lease_expires_at=database_now(settings.NOVELLA_LEASE_SECONDS))


def let_go(alias: str) -> list[tuple[str, UUID]]:
    """End this worker's own leases in `alias`, as its process is about to; returns queue and uuid of those runs."""
    with write_tx(alias):
        mine = WorkflowRun.objects.using(alias).live().filter(owner=WORKER)
        runs = list(mine.values_list("queue", "uuid"))
        if runs:
            mine.update(lease_expires_at=database_now(-1), wake_at=database_now())
    return runs


def expire_all(alias: str) -> int:
    """End every lease in `alias`: for a process that knows that no other is left alive. Returns how many."""
    with write_tx(alias):
        return (
            WorkflowRun.objects.using(alias)
            .live()
            .filter(owner__isnull=False)
            .update(lease_expires_at=database_now(-1), wake_at=database_now())
        )
