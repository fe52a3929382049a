"""Who works on a run: claiming with a fencing token, keeping the lease, and letting go."""

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
from conductor.journal import checkpoints
from conductor.journal.models import LeaseGrant, WorkflowRun
from conductor.transactions import database_now, one_at_a_time, write_tx

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
    """While inside, the heartbeat keeps this worker's lease of a run alive.

    Of that run alone: one that was given up because its database failed still has this worker as its owner, and
    must run out although the worker lives.
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
    """One statement per database in which this worker owns runs."""
    at_work: defaultdict[str, list[UUID]] = defaultdict(list)
    with _busy_lock:
        for alias, run_uuid in _busy:
            at_work[alias].append(run_uuid)
    for alias, run_uuids in at_work.items():
        try:
            with write_tx(alias):
                mine = WorkflowRun.objects.using(alias).live().filter(owner=WORKER, uuid__in=run_uuids)
                mine.update(lease_expires_at=database_now(settings.NOVELLA_LEASE_SECONDS))
        except (OperationalError, InterfaceError):  # that cell's runs will be taken over; the others' must not
            log.warning("leases not renewed: alias=%s", alias, exc_info=True)


def give_back(alias: str, run_uuid: UUID | str) -> None:
    """End this worker's lease of one run: whoever looks next takes it up."""
    with write_tx(alias):
        mine = WorkflowRun.objects.using(alias).live().filter(uuid=run_uuid, owner=WORKER)
        mine.update(lease_expires_at=database_now(-1), wake_at=database_now())


def give_up(alias: str, run_uuid: UUID | str) -> None:
    """Remember a run that this worker stopped working on because its database failed: the lease is still its own."""
    with _busy_lock:
        _given_up.add((alias, run_uuid if isinstance(run_uuid, UUID) else UUID(run_uuid)))


def given_up() -> list[tuple[str, UUID]]:
    """Runs that were given up and are not worked on here again."""
    with _busy_lock:
        return sorted(_given_up - set(_busy))


def let_go_of(alias: str, run_uuid: UUID) -> list[tuple[str, UUID]]:
    """End the lease of a run that was given up; its queue and uuid, or nothing when another owns it by now."""
    freed = _end(alias, Q(owner=WORKER, uuid=run_uuid))
    with _busy_lock:
        _given_up.discard((alias, run_uuid))
    return freed


def let_go(alias: str) -> list[tuple[str, UUID]]:
    """End this worker's own leases in `alias`, as its process is about to; returns queue and uuid of those runs."""
    return _end(alias, Q(owner=WORKER))


def bury(alias: str, life: str) -> list[tuple[str, UUID]]:
    """End the leases that a process left in `alias` in a life that is over; returns queue and uuid of those runs.

    Of several who notice, one ends them. Should the process live after all, its token is refused once another claims.
    """
    left = Q(owner__endswith=f":{life}", lease_expires_at__gt=database_now())
    owned = WorkflowRun.objects.using(alias).live().filter(left)
    if not owned.exists():  # most often: no write then
        return []
    with write_tx(alias):
        # All who watch notice in the same instant. Whoever comes second must not touch a row: the claim passes over
        # one that somebody holds, and the run would wait for the sweep.
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
    """End every lease in `alias` but this life's: for a process that knows that no other is left alive.

    Returns how many. Its own workers may have taken runs up already: a death watch is quicker than a start.
    """
    with write_tx(alias):
        owned = WorkflowRun.objects.using(alias).live().filter(owner__isnull=False).exclude(owner=WORKER)
        return owned.update(lease_expires_at=database_now(-1), wake_at=database_now())
