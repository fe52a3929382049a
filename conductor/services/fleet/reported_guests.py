"""Comparison of the guests that a host reports with the instances that its cell places there."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from conductor import events
from conductor.cell_db.models import Instance
from conductor.core.context import system_context
from conductor.core.errors import ResourceLocked
from conductor.core.identifiers import uuid_or_none
from conductor.core.server_actions import ACTIONS
from conductor.core.states import FINAL_RUN_STATES, PowerState, VmState
from conductor.db.transactions import database_now, savepoint
from conductor.journal.models import WorkflowRun
from conductor.rpc import outbox

log = logging.getLogger(__name__)

# A report may be older than the cell's rows, so a single one decides nothing.
ENOUGH_SIGHTINGS = 2
RARELY = 256  # maximum number of reports between two commands to destroy the same guest

KNOWN_POWER_STATES = frozenset(int(state) for state in PowerState)


@dataclass
class ReportMismatches:
    """Instances by uuid, with the number of consecutive reports that did not match the cell's rows.

    Attributes:
        unmanaged: Unmanaged guests.
        missing: Instances that the host does not have.
        odd: Instances whose power state does not match their state.
        is_pending: An instance with a task under way must be compared again.
    """

    unmanaged: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    odd: dict[str, int] = field(default_factory=dict)
    is_pending: bool = False

    @property
    def is_any(self) -> bool:
        return bool(self.unmanaged or self.missing or self.odd or self.is_pending)


def settle(cell: str, host: str, guests: Mapping[str, int], before: Mapping[str, Any]) -> ReportMismatches:
    """Store power states and destroy guests that don't belong on the host. Call it inside `write_tx(cell)`.

    `guests` has the power state by instance uuid. `before` is what the previous report left unsettled.
    """
    found = _by_uuid(guests)
    unsettled = ReportMismatches()
    rows = Instance.objects.using(cell).alive().filter(host=host)
    placed = [Placed(*row) for row in rows.values_list(*Placed._fields)]
    for instance in placed:
        reported = found.get(instance.uuid)
        _compare(cell, instance, reported, before.get("missing", {}), unsettled)
        look(cell, instance, reported, before.get("odd", {}), unsettled.odd)
    unmanaged = set(found) - {instance.uuid for instance in placed}
    if unmanaged:
        for uuid in _unwanted(cell, host, unmanaged):
            _turn_out(cell, host, uuid, before.get("unmanaged", {}), unsettled)
    return unsettled


def are_settled(placed: Iterable[Placed], guests: Mapping[str, int]) -> bool:
    """Whether the guests are those of the instances on the host, with power states that match."""
    found = _by_uuid(guests)
    for instance in placed:
        reported = found.pop(instance.uuid, None)
        if _known_state(reported) != instance.power_state or (instance.vm_state, reported) in FOLLOWS:
            return False
    return not found


def _by_uuid(guests: Mapping[str, int]) -> dict[UUID, int]:
    return {uuid: state for text, state in guests.items() if (uuid := uuid_or_none(text)) is not None}


def _known_state(reported: int | None) -> PowerState:
    return PowerState(reported) if reported in KNOWN_POWER_STATES else PowerState.NOSTATE


def _compare(
    cell: str, instance: Placed, reported: int | None, missing_before: Mapping[str, int], unsettled: ReportMismatches
) -> None:
    state = _known_state(reported)
    if state == instance.power_state:
        return
    if instance.task_state is not None:  # its workflow sets the state
        unsettled.is_pending = True
        return
    if reported is None:
        sightings = missing_before.get(str(instance.uuid), 0) + 1
        if sightings < ENOUGH_SIGHTINGS:
            unsettled.missing[str(instance.uuid)] = sightings
            return
    rows = Instance.objects.using(cell).filter(pk=instance.pk)
    rows.update(power_state=state, updated_at=database_now())
    events.append(
        cell, events.about_instance(instance.uuid, instance.project_id), "instance.updated", {"power_state": int(state)}
    )


def _unwanted(cell: str, host: str, unmanaged: set[UUID]) -> list[UUID]:
    """Return the guests to destroy: those of deleted or moved instances without a live workflow.

    A guest without any instance row in this cell is logged and kept. It may hold data of a user, and a cell that was
    restored from an old backup must not delete what was built since.
    """
    known = set(Instance.objects.using(cell).filter(uuid__in=unmanaged).values_list("uuid", flat=True))
    for uuid in sorted(unmanaged - known):
        log.warning("guest without an instance: host=%s guest=%s", host, uuid)
    under_work = set(
        WorkflowRun.objects.using(cell)
        .filter(instance_uuid__in=known)
        .exclude(state__in=FINAL_RUN_STATES)
        .values_list("instance_uuid", flat=True)
    )
    return sorted(known - under_work)


def _is_time(sightings: int) -> bool:
    """Whether to send the command now. It is repeated ever more rarely to a host that reports but does not carry it
    out.
    """
    return sightings & (sightings - 1) == 0 or sightings % RARELY == 0


def _turn_out(cell: str, host: str, uuid: UUID, seen_before: Mapping[str, int], unsettled: ReportMismatches) -> None:
    sightings = seen_before.get(str(uuid), 0) + 1
    unsettled.unmanaged[str(uuid)] = sightings
    if sightings < ENOUGH_SIGHTINGS or not _is_time(sightings):
        return
    outbox.defer_destroy(cell, host, uuid)
    log.warning("guest does not belong here and goes: host=%s instance=%s sightings=%d", host, uuid, sightings)
    if sightings == ENOUGH_SIGHTINGS:
        events.append(cell, events.about_host(host, uuid), "host.guest_turned_out")


# One report may be older than the action that has just ended.

# (instance's state, guest's power state) → the action that makes them match. Other combinations are only shown.
FOLLOWS: Mapping[tuple[str, int], str] = {
    (VmState.ACTIVE, PowerState.SHUTDOWN): "stop",
    (VmState.ACTIVE, PowerState.CRASHED): "stop",
    (VmState.ACTIVE, PowerState.SUSPENDED): "stop",
    (VmState.STOPPED, PowerState.RUNNING): "stop",
    (VmState.PAUSED, PowerState.SHUTDOWN): "stop",
    (VmState.PAUSED, PowerState.CRASHED): "stop",
    (VmState.SOFT_DELETED, PowerState.RUNNING): "soft_delete",
}


class Placed(NamedTuple):
    """Columns of an instance that each report needs. It is a tuple, as hundreds of model objects cost several times
    more.
    """

    pk: int
    uuid: UUID
    project_id: str
    name: str
    vm_state: str
    power_state: int
    task_state: str | None


def look(cell: str, instance: Placed, reported: int | None, before: Mapping[str, int], odd: dict[str, int]) -> None:
    """Start the action that a guest's power state requires, on behalf of the system, at the second consecutive report.

    Call it inside `write_tx(cell)`. An instance with a task under way is left to its workflow. `before` and `odd` count
    reports by uuid. Where the action fails, it is repeated after twice as many reports each time.
    """
    uuid = str(instance.uuid)
    name = FOLLOWS.get((instance.vm_state, reported)) if reported is not None else None
    if name is None:
        return
    if instance.task_state is not None:
        if uuid in before:
            odd[uuid] = before[uuid]
        return
    odd[uuid] = before.get(uuid, 0) + 1
    if odd[uuid] >= ENOUGH_SIGHTINGS and odd[uuid].bit_count() == 1:
        _follow(cell, instance, name, PowerState(reported or 0))


def _follow(cell: str, instance: Placed, name: str, found: PowerState) -> None:
    action = ACTIONS[name]
    context = replace(system_context(), project_id=instance.project_id)
    wanted = outbox.NewRun(
        flow=action.flow,
        action=name,
        context=context,
        resources=[f"instance:{instance.uuid}"],
        instance_uuid=instance.uuid,
        instance_name=instance.name,
        inputs={"timeout_seconds": 0.0, "reason": f"its guest was found {found.name.lower()}"},
    )
    rows = Instance.objects.using(cell).alive().filter(pk=instance.pk, vm_state=instance.vm_state, task_state=None)
    if not rows.select_for_update().exists():
        return
    try:
        with savepoint(cell):  # a savepoint: a refused run leaves nothing
            run = outbox.open_run(cell, wanted)
    except ResourceLocked:  # a workflow without a task state holds the lock; the next report retries
        return
    log.info("guest found %s: instance=%s action=%s run=%s", found.name, instance.uuid, name, run.uuid)
    rows.update(task_state=action.task_state, updated_at=database_now())
    events.append(cell, events.about_instance(instance.uuid, instance.project_id, run.uuid), "instance.updated")
