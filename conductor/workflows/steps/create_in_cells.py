"""Turn build requests into instances in the chosen cells; what was deleted meanwhile is dropped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db import connections

from conductor import events
from conductor.api_db.models import BuildRequest, CellMapping, InstanceMapping
from conductor.cell_db.models import Instance
from conductor.scheduler import allocation_claims
from conductor.transactions import database_time
from conductor.volume import operations
from conductor.workflows.flow import Result, Retry, Step, Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.select_destinations import SelectDestinations


class CreateInCells(Step):
    """Rows first, in each cell; then, with the step's record, each request gets its cell or is dropped.

    That transaction is where a delete and a build meet: it sees `is_deleting` and decides, once.
    """

    title = "Create in cell"
    event = "conductor_schedule_and_build_instances"
    retry = Retry(tries=5)

    def execute(self, work: Work) -> Result:
        for cell, rows in _requests_by_cell(work).items():
            _create(work, cell, [row for row in rows if not row.is_deleting])
        return {}

    def apply(self, work: Work, result: Result) -> None:
        work.run.variables |= _settle(work)

    def revert(self, work: Work, result: Result) -> None:
        for cell, rows in _requests_by_cell(work).items():
            remove(work, cell, [str(row.instance_uuid) for row in rows])


def chosen_cells(work: Work) -> dict[str, str]:
    """Uuid → cell that was chosen for it."""
    selections: dict[str, list[dict[str, Any]]] = work.result_of(SelectDestinations).get("selections", {})
    return {uuid: chosen[0]["cell"] for uuid, chosen in selections.items()}


def remove(work: Work, cell: str, instance_uuids: Sequence[str]) -> None:
    """Take rows away that no mapping leads to."""
    if instance_uuids:
        with work.fenced(cell):
            Instance.objects.using(cell).filter(uuid__in=instance_uuids).delete()


def _requests_by_cell(work: Work) -> dict[str, list[BuildRequest]]:
    cells = chosen_cells(work)
    by_cell: dict[str, list[BuildRequest]] = defaultdict(list)
    for row in BuildRequest.objects.filter(run_uuid=work.run.uuid):
        if str(row.instance_uuid) in cells:
            by_cell[cells[str(row.instance_uuid)]].append(row)
    return by_cell


def _create(work: Work, cell: str, rows: list[BuildRequest]) -> None:
    with work.fenced(cell):
        uuids = [row.instance_uuid for row in rows]
        there = set(Instance.objects.using(cell).filter(uuid__in=uuids).values_list("uuid", flat=True))
        now = database_time(cell)
        missing = [
            {"uuid": row.instance_uuid, **row.instance, "created_at": row.created_at, "updated_at": now}
            for row in rows
            if row.instance_uuid not in there
        ]
        instance_rows.ROWS.insert_all(connections[cell], missing)


def _settle(work: Work) -> dict[str, Any]:
    """What exists now (uuid → cell), and what was deleted while it was scheduled; inside the journal's transaction."""
    chosen = chosen_cells(work)
    cells = {cell.name: cell for cell in CellMapping.objects.all()}
    rows = {str(row.instance_uuid): row for row in BuildRequest.objects.filter(run_uuid=work.run.uuid)}
    dropped = sorted(uuid for uuid, row in rows.items() if row.is_deleting or uuid not in chosen)
    created = {uuid: chosen[uuid] for uuid in rows if uuid not in dropped}
    for cell in sorted(set(created.values())):
        mine = [uuid for uuid, home in created.items() if home == cell]
        InstanceMapping.objects.filter(instance_uuid__in=mine).update(cell=cells[cell])
    for uuid in dropped:
        forget(work, uuid)
    BuildRequest.objects.filter(run_uuid=work.run.uuid).delete()
    return {"created": created, "dropped": dropped}


def forget(work: Work, instance_uuid: str) -> None:
    """A request that was deleted before it had a cell leaves nothing; inside a fenced API transaction."""
    allocation_claims.release(instance_uuid)
    give_volumes_back(work, instance_uuid)
    InstanceMapping.objects.filter(instance_uuid=instance_uuid).update(is_deleted=True)
    events.append(
        "default", events.about_instance(instance_uuid, work.run.project_id, work.run.uuid), "instance.deleted"
    )


def give_volumes_back(work: Work, instance_uuid: str) -> None:
    """Volumes that the launch took for an instance are free again, or go where it made them; in a write transaction.

    The data of those that go are removed by the upkeep of volumes.
    """
    for device in work.inputs.get("devices", {}).get(instance_uuid, ()):
        operations.let_go(device["attachment_id"], is_deleted=device["is_made"])
