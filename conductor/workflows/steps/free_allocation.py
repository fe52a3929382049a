"""Give back what the instance holds: allocation, place in a group, share of the quota, claims of moves."""

from __future__ import annotations

from django.db import connections

from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import Migration
from conductor.core.states import MigrationStatus
from conductor.scheduler import allocation_claims, moving
from conductor.sql.rows import Rows
from conductor.transactions import database_now
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work
from conductor.workflows.steps.forget_moves import open_moves

MAPPINGS = Rows(InstanceMapping, "instance_uuid")


class FreeAllocation(Step):
    title = "Free allocation"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        moves = [str(uuid) for uuid in open_moves(work).values_list("uuid", flat=True)]
        with work.fenced("default"):
            for migration_uuid in moves:
                moving.settle(work.instance_uuid, migration_uuid)
            allocation_claims.release(work.instance_uuid)
            MAPPINGS.update(connections["default"], work.instance_uuid, is_deleted=True)
        return {"moves": moves}

    def apply(self, work: Work, result: Result) -> None:
        if result["moves"]:
            rows = Migration.objects.using(work.alias).filter(uuid__in=result["moves"])
            rows.update(status=MigrationStatus.CONFIRMED, updated_at=database_now())
