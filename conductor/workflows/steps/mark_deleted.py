"""Nothing is left of the instance: say so."""

from __future__ import annotations

from conductor.cell_db.models import ConsoleLog
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows


class MarkDeleted(Step):
    title = "Mark as deleted"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        ConsoleLog.objects.using(work.alias).filter(instance_uuid=work.instance_uuid).delete()
        instance_rows.bury(work)
