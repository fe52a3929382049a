"""Discrepancies of guests as hosts report them: duplicates, unmanaged guests, and missing ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conductor.cell_db.models import Instance
from conductor.core.states import VmState
from conductor.db.transactions import write_tx
from conductor.journal.models import WorkflowRun
from conductor.rpc import outbox
from conductor.services.operations.reconciliation.facts import ReconciliationFacts, instance_resource
from conductor.services.operations.reconciliation.finding import Discrepancy, DiscrepancyKind, Severity

# In these states a host must have the guest, running or not.
ON_A_HOST = frozenset(
    {
        VmState.ACTIVE, VmState.PAUSED, VmState.SUSPENDED, VmState.STOPPED, VmState.RESCUED, VmState.RESIZED,
        VmState.SOFT_DELETED, VmState.SHELVED,
    }
)  # fmt: skip


def _found(uuid: str, cell: str, detail: str, host: str = "") -> Discrepancy:
    subject = f"guest:{uuid}:{host}" if host else f"guest:{uuid}"
    touches = (instance_resource(uuid),)
    return Discrepancy(subject=subject, detail=detail, cell=cell, instance_uuid=uuid, touches=touches, data=host)


def _doubled(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for uuid, places in facts.guests.items():
        if len(places) > 1 and uuid not in facts.moving:
            hosts = ", ".join(sorted(host for _, host in places))
            detail = f"Guest {uuid} is on several hosts: {hosts}. Two guests may write to the same volumes."
            yield _found(uuid, places[0][0], detail)


def _of_dead(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    """Find guests of deleted instances, except those with a deferred destroy."""
    for uuid, places in facts.guests.items():
        for cell, host in places if facts.is_dead(uuid) else ():
            if (host, uuid) in facts.cells[cell].deferred:
                continue
            yield _found(uuid, cell, f"Host {host} has the guest of instance {uuid}, which was deleted.", host)


def _destroy(facts: ReconciliationFacts, found: Discrepancy) -> str:
    """Defer a destroy to the host, repeated until confirmed.

    Only the cell's own row counts: a guest unknown to the cell stays.
    """
    return _have_removed(found, outbox.defer_destroy)


def _have_removed(found: Discrepancy, remove: Callable[[str, str, str], None]) -> str:
    with write_tx(found.cell):
        rows = Instance.objects.using(found.cell).filter(uuid=found.instance_uuid, deleted_at__isnull=False)
        unfinished = WorkflowRun.objects.using(found.cell).live().filter(instance_uuid=found.instance_uuid)
        if not rows.exists() or unfinished.exists():
            return ""
        remove(found.cell, found.data, found.instance_uuid)
    return f"Host {found.data} was sent the command to destroy it."


def _unknown(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for uuid, places in facts.guests.items():
        for cell, host in places if facts.is_unheard_of(uuid) else ():
            yield _found(uuid, cell, f"Host {host} has a guest {uuid} of which no database has heard.", host)


def _missing(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for uuid, instance in facts.alive.items():
        host = facts.cells[instance.cell].hosts.get(instance.host)
        if host is None or not host.is_up or host.guests is None or uuid in facts.moving:
            continue
        if instance.was_launched and instance.vm_state in ON_A_HOST and uuid not in host.guests:
            detail = f"Instance {uuid} is {instance.vm_state} on {instance.host}, which has no such guest."
            yield _found(uuid, instance.cell, detail)


def _kept(facts: ReconciliationFacts) -> Iterator[tuple[str, str, str]]:
    """Yield instance, cell and host of disks kept for rollbacks on hosts that are up, unless already deferred."""
    for alias, cell in facts.cells.items():
        for host, service in cell.hosts.items():
            for uuid in service.kept if service.is_up else ():
                if (host, uuid) not in cell.deferred:
                    yield uuid, alias, host


def _kept_of_dead(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for uuid, cell, host in _kept(facts):
        if facts.is_dead(uuid):
            yield _found(uuid, cell, f"Host {host} keeps disks of instance {uuid}, which was deleted.", host)


def _remove_kept(facts: ReconciliationFacts, found: Discrepancy) -> str:
    """Remove kept disks; as in `_destroy`, only of instances that the cell has as deleted."""
    return _have_removed(found, outbox.defer_removal_of_kept)


def _kept_without_move(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    """Find kept disks without a move, for an operator, as they may be all that is left of the guest."""
    for uuid, cell, host in _kept(facts):
        if (uuid in facts.alive and uuid not in facts.moving) or facts.is_unheard_of(uuid):
            yield _found(uuid, cell, f"Host {host} keeps disks of instance {uuid}, and no move is open.", host)


KINDS = (
    DiscrepancyKind("guest_doubled", "Guest on several hosts", _doubled, severity=Severity.CRITICAL, grace_seconds=0.0),
    DiscrepancyKind("guest_of_dead_instance", "Guest of a deleted server", _of_dead, _destroy),
    DiscrepancyKind("disks_kept_of_dead_instance", "Disks of a deleted server", _kept_of_dead, _remove_kept),
    DiscrepancyKind("disks_kept_without_move", "Disks without a migration on a host", _kept_without_move),
    DiscrepancyKind("unmanaged_guest", "Guest without a server", _unknown, severity=Severity.CRITICAL),
    DiscrepancyKind("guest_missing", "Server without a guest", _missing, severity=Severity.CRITICAL),
)
