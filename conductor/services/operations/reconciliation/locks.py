"""Discrepancies of locks: locks and waits of ended workflows, and workflows that no conductor claims."""

from __future__ import annotations

from collections.abc import Iterator

from conductor.cells.lookup import API_ALIAS
from conductor.core.states import FINAL_RUN_STATES
from conductor.db.transactions import write_tx
from conductor.journal.models import LockWait, ResourceLock
from conductor.rpc import outbox
from conductor.services.operations.reconciliation.facts import ReconciliationFacts, instance_resource
from conductor.services.operations.reconciliation.finding import Discrepancy, DiscrepancyKind, Severity


def _found(alias: str, resource: str, detail: str, data: object, what: str = "lock") -> Discrepancy:
    kind, _, uuid = resource.partition(":")
    return Discrepancy(
        subject=f"{what}:{alias}:{resource}",
        detail=detail,
        cell="" if alias == API_ALIAS else alias,
        instance_uuid=uuid if kind == "instance" else "",
        data=(alias, data),
    )


def _of_ended(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for alias, journal in facts.journals.items():
        for lock in journal.locks:
            if lock.has_ended:
                detail = f"Workflow {lock.holder_uuid} has ended and still holds {lock.resource}."
                yield _found(alias, lock.resource, detail, lock.holder_uuid)


def _free(facts: ReconciliationFacts, found: Discrepancy) -> str:
    alias, holder = found.data
    resource = found.subject.split(":", 2)[2]
    with write_tx(alias):
        rows = ResourceLock.objects.using(alias).filter(resource=resource, run__uuid=holder)
        count, _ = rows.filter(run__state__in=FINAL_RUN_STATES).delete()
    outbox.hand_over_locks(alias)
    return "It was freed, and the workflows that waited for it continue." if count else ""


def _foreign(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    """Yield locks for runs that a cell does not have.

    The reconciler's grace period is longer than the time that a cell takes to start a run.
    """
    for lock in facts.api.journal.locks:
        cell = facts.cells.get(lock.holder_alias)
        if cell is not None and lock.holder_uuid not in cell.journal.run_uuids:
            detail = (
                f"{lock.resource} is held for workflow {lock.holder_uuid} of {cell.alias}, which has ended or "
                "never existed."
            )
            yield _found(API_ALIAS, lock.resource, detail, lock.holder_uuid)


def _free_foreign(facts: ReconciliationFacts, found: Discrepancy) -> str:
    alias, holder = found.data
    with write_tx(alias):
        resource = found.subject.split(":", 2)[2]
        count, _ = ResourceLock.objects.using(alias).filter(resource=resource, holder_uuid=holder).delete()
    outbox.hand_over_locks(alias)
    return "It was freed." if count else ""


def _waits(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for alias, journal in facts.journals.items():
        for wait in journal.waits:
            if wait.has_ended:
                detail = f"Workflow {wait.holder_uuid} has ended and still waits for {wait.resource}."
                yield _found(alias, wait.resource, detail, wait.pk, "wait")


def _forget_wait(facts: ReconciliationFacts, found: Discrepancy) -> str:
    alias, pk = found.data
    with write_tx(alias):
        count, _ = LockWait.objects.using(alias).filter(pk=pk, run__state__in=FINAL_RUN_STATES).delete()
    outbox.hand_over_locks(alias)
    return "It no longer waits." if count else ""


def _late(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for alias, journal in facts.journals.items():
        for uuid, flow, instance_uuid in journal.late:
            yield Discrepancy(
                subject=f"workflow:{uuid}",
                detail=f"Workflow {uuid} ({flow}) has been due for a long time, and no conductor has claimed it.",
                cell="" if alias == API_ALIAS else alias,
                instance_uuid=instance_uuid,
                data=instance_resource(instance_uuid),
            )


KINDS = (
    DiscrepancyKind("lock_of_ended_workflow", "Lock of an ended workflow", _of_ended, _free),
    DiscrepancyKind("lock_of_absent_workflow", "Lock of a missing cell workflow", _foreign, _free_foreign),
    DiscrepancyKind("wait_of_ended_workflow", "Lock request of an ended workflow", _waits, _forget_wait),
    DiscrepancyKind("workflow_not_taken_up", "Overdue workflow without a conductor", _late, severity=Severity.CRITICAL),
)
