"""Guests as hosts report them: twice, of servers that are gone or that nobody knows, and not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conductor.cell_db.models import Instance
from conductor.core.states import VmState
from conductor.journal.models import WorkflowRun
from conductor.rpc import outbox
from conductor.services.reconciliation.facts import Facts
from conductor.services.reconciliation.finding import Found, Kind, Severity
from conductor.services.reconciliation.resources import instance_resource
from conductor.transactions import write_tx

# In these states a host must have the guest, running or not.
ON_A_HOST = frozenset(
    {
        VmState.ACTIVE, VmState.PAUSED, VmState.SUSPENDED, VmState.STOPPED, VmState.RESCUED, VmState.RESIZED,
        VmState.SOFT_DELETED, VmState.SHELVED,
    }
)  # fmt: skip


def _found(uuid: str, cell: str, detail: str, host: str = "") -> Found:
    subject = f"guest:{uuid}:{host}" if host else f"guest:{uuid}"
    touches = (instance_resource(uuid),)
    return Found(subject=subject, detail=detail, cell=cell, instance_uuid=uuid, touches=touches, data=host)


def _doubled(facts: Facts) -> Iterator[Found]:
    for uuid, places in facts.guests.items():
        if len(places) > 1 and uuid not in facts.moving:
            hosts = ", ".join(sorted(host for _, host in places))
            detail = f"Guest {uuid} is on several hosts: {hosts}. Two guests may write to the same volumes."
            yield _found(uuid, places[0][0], detail)


def _of_dead(facts: Facts) -> Iterator[Found]:
    """One that is told so already just needs time."""
    for uuid, places in facts.guests.items():
        for cell, host in places if facts.is_dead(uuid) else ():
            if (host, uuid) in facts.cells[cell].owed:
                continue
            yield _found(uuid, cell, f"Host {host} has the guest of instance {uuid}, which was deleted.", host)


def _destroy(facts: Facts, found: Found) -> str:
    """The host is told until it answers. Only the cell's own word counts: a guest that it does not know stays."""
    return _have_removed(found, outbox.owe_destroy)


def _have_removed(found: Found, remove: Callable[[str, str, str], None]) -> str:
    with write_tx(found.cell):
        rows = Instance.objects.using(found.cell).filter(uuid=found.instance_uuid, deleted_at__isnull=False)
        unfinished = WorkflowRun.objects.using(found.cell).live().filter(instance_uuid=found.instance_uuid)
        if not rows.exists() or unfinished.exists():
            return ""
        remove(found.cell, found.data, found.instance_uuid)
    return f"Host {found.data} was told to destroy it."


def _unknown(facts: Facts) -> Iterator[Found]:
    for uuid, places in facts.guests.items():
        for cell, host in places if facts.is_unheard_of(uuid) else ():
            yield _found(uuid, cell, f"Host {host} has a guest {uuid} of which no database has heard.", host)


def _missing(facts: Facts) -> Iterator[Found]:
    for uuid, instance in facts.alive.items():
        host = facts.cells[instance.cell].hosts.get(instance.host)
        if host is None or not host.is_up or host.guests is None or uuid in facts.moving:
            continue
        if instance.was_launched and instance.vm_state in ON_A_HOST and uuid not in host.guests:
            detail = f"Instance {uuid} is {instance.vm_state} on {instance.host}, which has no such guest."
            yield _found(uuid, instance.cell, detail)


def _kept(facts: Facts) -> Iterator[tuple[str, str, str]]:
    """Instance, cell and host of what hosts that work keep for going back; what they are to remove needs time."""
    for alias, cell in facts.cells.items():
        for host, service in cell.hosts.items():
            for uuid in service.kept if service.is_up else ():
                if (host, uuid) not in cell.owed:
                    yield uuid, alias, host


def _kept_of_dead(facts: Facts) -> Iterator[Found]:
    for uuid, cell, host in _kept(facts):
        if facts.is_dead(uuid):
            yield _found(uuid, cell, f"Host {host} keeps disks of instance {uuid}, which was deleted.", host)


def _remove_kept(facts: Facts, found: Found) -> str:
    """As `_destroy`: only for what the cell itself knows to be deleted."""
    return _have_removed(found, outbox.owe_removal_of_kept)


def _kept_without_move(facts: Facts) -> Iterator[Found]:
    """A person must look: they may be all that is left of the guest."""
    for uuid, cell, host in _kept(facts):
        if (uuid in facts.alive and uuid not in facts.moving) or facts.is_unheard_of(uuid):
            yield _found(uuid, cell, f"Host {host} keeps disks of instance {uuid}, and no move is open.", host)


KINDS = (
    Kind("guest_doubled", "Guest on several hosts", _doubled, severity=Severity.CRITICAL, grace_seconds=0.0),
    Kind("guest_of_dead_instance", "Guest of a server that was deleted", _of_dead, _destroy),
    Kind("disks_kept_of_dead_instance", "Disks kept of a server that was deleted", _kept_of_dead, _remove_kept),
    Kind("disks_kept_without_move", "Disks kept by a host without a move", _kept_without_move),
    Kind("guest_of_nobody", "Guest that nobody knows", _unknown, severity=Severity.CRITICAL),
    Kind("guest_missing", "Server without a guest", _missing, severity=Severity.CRITICAL),
)
