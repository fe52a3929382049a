"""Hand each instance to its cell's conductor: one workflow of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid5

from conductor.cell_db.models import Instance
from conductor.cells import quarantine
from conductor.core.states import TaskState
from conductor.journal import foreign_locks
from conductor.journal.models import WorkflowRun
from conductor.rpc import outbox
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work
from conductor.workflows.steps.create_in_cells import chosen_cells, remove
from conductor.workflows.steps.select_destinations import SelectDestinations

MOST_AT_ONCE = 64  # so that the cells begin with the first of many while the others are handed over


class HandOver(Step):
    """The child's uuid follows from parent and instance, so doing this twice creates it once.

    From here on there is no way back: each instance has its cell, and its own run is responsible for it.
    """

    title = "Hand over to cell"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        created: dict[str, str] = work.run.variables["created"]
        cells, dropped = chosen_cells(work), work.run.variables["dropped"]
        for cell in sorted(set(created.values())):
            quarantine.refuse(cell)  # asked again until it is lifted
        for cell in sorted(set(cells.values())):
            remove(work, cell, [uuid for uuid in dropped if cells.get(uuid) == cell])
        _pass_on(work, created)
        uuids = list(created)
        for begin in range(0, len(uuids), MOST_AT_ONCE):
            some = uuids[begin : begin + MOST_AT_ONCE]
            for cell in sorted({created[uuid] for uuid in some}):
                with work.fenced(cell):
                    _open_children(work, cell, [uuid for uuid in some if created[uuid] == cell])
        return {"children": {uuid: str(child_uuid(work, uuid)) for uuid in created}}


def _pass_on(work: Work, created: Mapping[str, str]) -> None:
    """Ports and volumes that this run holds are the children's before the children are there: nobody gets between."""
    for cell in sorted(set(created.values())):
        mine = [uuid for uuid, home in created.items() if home == cell]
        for instance in Instance.objects.using(cell).filter(uuid__in=mine).only("uuid", "networks"):
            held = held_beside(work, instance)
            if held:
                child = child_uuid(work, str(instance.uuid))
                with work.fenced("default"):
                    foreign_locks.pass_on(work.run, held, holder_uuid=child, holder_alias=cell)


def held_beside(work: Work, instance: Instance) -> list[str]:
    """What a build locks beside the instance: ports that were made before, and its volumes."""
    ports = [f"port:{network['port_id']}" for network in instance.networks if network.get("port_id")]
    return ports + [f"volume:{device['volume_id']}" for device in devices_of(work, str(instance.uuid))]


def devices_of(work: Work, instance_uuid: str) -> list[dict[str, Any]]:
    """The volumes that the launch took for an instance (services.device_wishes.take)."""
    devices: dict[str, list[dict[str, Any]]] = work.inputs.get("devices", {})
    return devices.get(instance_uuid, [])


def child_uuid(work: Work, instance_uuid: str) -> UUID:
    """The uuid of the workflow that builds one instance of a request."""
    return uuid5(work.run.uuid, instance_uuid)


def _open_children(work: Work, cell: str, instance_uuids: list[str]) -> None:
    rows = Instance.objects.using(cell).filter(uuid__in=instance_uuids, deleted_at__isnull=True).order_by("uuid")
    children = {child_uuid(work, uuid): uuid for uuid in instance_uuids}
    there = set(WorkflowRun.objects.using(cell).filter(uuid__in=children).values_list("uuid", flat=True))
    selections = work.result_of(SelectDestinations)["selections"]
    for instance in rows.exclude(task_state=TaskState.DELETING).only("uuid", "name", "networks"):
        uuid = str(instance.uuid)
        if child_uuid(work, uuid) in there:
            continue
        devices = devices_of(work, uuid)
        outbox.open_run(
            cell,
            outbox.NewRun(
                flow="build_from_volumes" if devices else "build_in_cell",
                action="create",
                context=work.context,
                instance_uuid=uuid,
                instance_name=instance.name,
                inputs={"selections": selections[uuid], **({"devices": devices} if devices else {})},
                resources=[f"instance:{uuid}", *held_beside(work, instance)],
                parent_uuid=work.run.uuid,
                run_uuid=child_uuid(work, uuid),
            ),
        )
