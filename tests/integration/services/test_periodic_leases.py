"""Leases of periodic work end with their holder, are renewed while the work goes on, and keep a late holder out."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from django.db import connections

from conductor.actors import liveness, periodic
from conductor.api_db.models import Finding
from conductor.core.context import system_context
from conductor.core.membership import life_of
from conductor.db.transactions import database_now, write_tx
from conductor.journal.models import PeriodicLease
from conductor.placement.models import ProviderInventory, ResourceProvider
from conductor.services.audit import seals
from conductor.services.audit.audit import AuditEntry, record
from conductor.services.billing import budgets
from conductor.services.operations.pruning import pruner
from conductor.services.operations.reconciliation import facts, reconciler
from conductor.services.servers import due_snapshots
from conductor.workflows.engine import leases

ALIAS = "default"
WORK: dict[str, tuple[Any, str]] = {
    "reconcile": (reconciler, "reconcile"),
    "prune": (pruner, "prune"),
    "budgets": (budgets, "look"),
    "scheduled snapshots": (due_snapshots, "look"),
    "check audit": (seals, "check"),
}


def ticker_of(work: str) -> Any:
    """Return the ticker of a conductor that looks after the API database, as a conductor makes it."""
    return ticker("audit-seals" if work == "check audit" else "periodic-work")


def ticker(name: str) -> Any:
    return next(one for one in periodic.conductor_tickers([ALIAS], "rack-1") if one._thread.name == name)


def killed_at(work: str) -> str:
    """Let a process of its own take up the work and kill it in the middle; its name in leases."""
    module, name = WORK[work]
    connections.close_all()
    reported, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:

        def stand_still(*_: Any, **__: Any) -> None:
            os.write(write_end, leases.WORKER.encode())
            signal.pause()

        setattr(module, name, stand_still)
        try:
            ticker_of(work)._work()
        finally:
            os._exit(1)
    os.close(write_end)
    worker = os.read(reported, 200).decode()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reported)
    assert worker, "it never came to the work"
    return worker


def miscount() -> None:
    provider = ResourceProvider.objects.create(name="sim-1")
    ProviderInventory.objects.create(provider=provider, resource_class="VCPU", total=8, used=1)


@pytest.mark.parametrize("work", WORK)
def test_the_work_of_a_killed_process_is_taken_up_as_soon_as_its_death_is_noticed(databases: None, work: str) -> None:
    with write_tx(ALIAS):
        record(ALIAS, system_context(), AuditEntry(action="workflow.retry", project_id="p"))
    seals.seal(ALIAS)
    worker = killed_at(work)
    held = PeriodicLease.objects.get(name=work)
    assert held.owner
    liveness.take_over(("cell1",), life_of(worker))  # noticed by one that looks after a cell only
    ticker_of(work)._work()
    now = PeriodicLease.objects.get(name=work)
    assert now.done_at is not None, "nothing is done until a lease of the dead has run out"
    assert now.owner == ""


def test_without_a_death_watch_the_work_waits_no_longer_than_a_run_does(databases: None, settings: Any) -> None:
    killed_at("reconcile")
    held = PeriodicLease.objects.get(name="reconcile")
    assert held.lease_expires_at is not None
    with write_tx(ALIAS):
        now = PeriodicLease.objects.filter(lease_expires_at__lte=database_now(settings.NOVELLA_LEASE_SECONDS))
        assert now.exists()


def test_a_lease_is_renewed_while_the_work_goes_on_and_no_longer(
    databases: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def long_pass(*_: Any, **__: Any) -> None:
        PeriodicLease.objects.update(lease_expires_at=database_now(-1))  # it takes longer than a lease
        ticker("lease-heartbeat")._work()
        seen.append(PeriodicLease.objects.filter(name="budgets", lease_expires_at__gt=database_now()).count())

    monkeypatch.setattr(budgets, "look", long_pass)
    budgets.carry_out("rack-1:1:aaaaaaaa")
    assert seen == [1]
    assert PeriodicLease.objects.get(name="budgets").lease_expires_at is None


def test_a_holder_that_lost_its_lease_stops_at_its_next_write(
    databases: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.NOVELLA_RECONCILE_SECONDS = 60.0
    miscount()
    load = facts.load

    def freeze(cells: Any) -> Any:
        """Read everything, and sleep past the lease: another process does the work meanwhile."""
        read = load(cells)
        monkeypatch.setattr(facts, "load", load)
        PeriodicLease.objects.update(lease_expires_at=database_now(-1))
        assert reconciler.carry_out("rack-2:1:bbbbbbbb")
        Finding.objects.all().delete()
        return read

    monkeypatch.setattr(facts, "load", freeze)
    reconciler.carry_out("rack-1:1:aaaaaaaa")
    assert not Finding.objects.exists(), "it wrote down what it had read before the other did the work"
    assert PeriodicLease.objects.get(name="reconcile").owner == ""
