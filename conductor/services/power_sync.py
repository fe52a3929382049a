"""What follows when a guest does what its instance's state does not say: it was shut down, or started, from inside or
behind our back."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from django.db import transaction

from conductor import events
from conductor.cell_db.models import Instance
from conductor.core.context import system_context
from conductor.core.errors import ResourceLocked
from conductor.core.server_actions import ACTIONS
from conductor.core.states import PowerState, VmState
from conductor.rpc import outbox
from conductor.transactions import database_now

log = logging.getLogger(__name__)

# One report may be older than the action that has just ended.
ENOUGH_SIGHTINGS = 2

# (state of the instance, what its guest does) → the action that makes both one. What is not here is only shown.
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
    """What each report of a host asks of an instance: a row, as models of hundreds cost several times that."""

    pk: int
    uuid: UUID
    project_id: str
    name: str
    vm_state: str
    power_state: int
    task_state: str | None


def look(cell: str, instance: Placed, reported: int | None, before: Mapping[str, int], odd: dict[str, int]) -> None:
    """Open the action that follows, as the product's own, at the second report in a row that asks for it.

    Inside `write_tx(cell)`. An instance that is under work is left to its workflow. `before` and `odd` count reports by
    uuid; where the action fails, it comes again after twice as many reports each time.
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
        with transaction.atomic(using=cell):  # a savepoint: a refused run leaves nothing
            run = outbox.open_run(cell, wanted)
    except ResourceLocked:  # something that shows no task state is at work on it; the next report comes
        return
    log.info("guest found %s: instance=%s action=%s run=%s", found.name, instance.uuid, name, run.uuid)
    rows.update(task_state=action.task_state, updated_at=database_now())
    events.append(cell, events.about_instance(instance.uuid, instance.project_id, run.uuid), "instance.updated")
