"""Turn build requests into instances in the chosen cells; what was deleted meanwhile is dropped."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from conductor import events
from conductor.api_db.models import BuildRequest, CellMapping, InstanceMapping
from conductor.cell_db.models import Instance
from conductor.scheduler import allocation_claims
from conductor.transactions import database_now
from conductor.workflows.flow import Result, Retry, Step, Work
from conductor.workflows.steps.select_destinations import SelectDestinations


class CreateInCells(Step):
    """Rows first, in each cell; then one API transaction in which each request either gets its cell or is dropped.

    That transaction is where a delete and a build meet: it sees `is_deleting` and decides, once.
    """

    title = "Create in cell"
    event = "conductor_schedule_and_build_instances"
    retry = Retry(tries=5)

    def execute(self, work: Work) -> Result:
        selections: dict[str, list[dict[str, Any]]] = dict(work.result_of(SelectDestinations).get("selections", {}))
        requests = {str(row.instance_uuid): row for row in BuildRequest.objects.filter(run_uuid=work.run.uuid)}
        by_cell: dict[str, list[BuildRequest]] = defaultdict(list)
        for uuid, chosen in selections.items():
            if uuid in requests and not requests[uuid].is_deleting:
                by_cell[chosen[0]["cell"]].append(requests[uuid])
        for cell, rows in by_cell.items():
            _create(work, cell, rows)
        created, dropped = _settle(work, selections)
        for cell, rows in by_cell.items():
            _remove(work, cell, [row for row in rows if str(row.instance_uuid) in dropped])
        return {"created": created, "dropped": sorted(dropped)}

    def revert(self, work: Work, result: Result) -> None:
        cells = {chosen[0]["cell"] for chosen in work.result_of(SelectDestinations).get("selections", {}).values()}
        rows = list(BuildRequest.objects.filter(run_uuid=work.run.uuid))
        for cell in cells:
            _remove(work, cell, rows)


def _create(work: Work, cell: str, rows: list[BuildRequest]) -> None:
    with work.fenced(cell):
        there = set(
            Instance.objects.using(cell)
            .filter(uuid__in=[row.instance_uuid for row in rows])
            .values_list("uuid", flat=True)
        )
        Instance.objects.using(cell).bulk_create(
            Instance(uuid=row.instance_uuid, **row.instance, created_at=row.created_at, updated_at=database_now())
            for row in rows
            if row.instance_uuid not in there
        )


def _settle(work: Work, selections: dict[str, list[dict[str, Any]]]) -> tuple[dict[str, str], set[str]]:
    """Uuid → cell of what exists now, and the uuids that were deleted while they were scheduled."""
    cells = {cell.name: cell for cell in CellMapping.objects.all()}
    with work.fenced("default"):
        rows = {str(row.instance_uuid): row for row in BuildRequest.objects.filter(run_uuid=work.run.uuid)}
        dropped = {uuid for uuid, row in rows.items() if row.is_deleting or uuid not in selections}
        for uuid in rows.keys() - dropped:
            InstanceMapping.objects.filter(instance_uuid=uuid).update(cell=cells[selections[uuid][0]["cell"]])
        for uuid in sorted(dropped):
            forget(work, uuid)
        BuildRequest.objects.filter(run_uuid=work.run.uuid).delete()
    placed = InstanceMapping.objects.filter(instance_uuid__in=selections, cell__isnull=False).select_related("cell")
    return {str(mapping.instance_uuid): mapping.cell.name for mapping in placed if mapping.cell}, dropped


def forget(work: Work, instance_uuid: str) -> None:
    """A request that was deleted before it had a cell leaves nothing; inside a fenced API transaction."""
    allocation_claims.release(instance_uuid)
    InstanceMapping.objects.filter(instance_uuid=instance_uuid).update(is_deleted=True)
    events.append(
        "default", events.about_instance(instance_uuid, work.run.project_id, work.run.uuid), "instance.deleted"
    )


def _remove(work: Work, cell: str, rows: list[BuildRequest]) -> None:
    if rows:
        with work.fenced(cell):
            Instance.objects.using(cell).filter(uuid__in=[row.instance_uuid for row in rows]).delete()
