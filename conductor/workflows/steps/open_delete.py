"""Open the instance's delete in its cell, once that answers."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError

from conductor.core.errors import CellUnavailable, Conflict
from conductor.rpc import deletes
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work


class OpenDelete(Step):
    """A server that was locked meanwhile, or has gone by itself, needs nothing more."""

    title = "Hand over to cell"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        cell = work.inputs["cell"]
        try:
            with work.fenced(cell):
                is_there = deletes.open_delete(cell, work.context, work.instance_uuid, parent_uuid=work.run.uuid)
        except (OperationalError, InterfaceError):
            raise CellUnavailable(f"The cell {cell} does not answer.") from None
        except Conflict as error:
            return {"is_refused": error.message}
        return {"is_there": is_there}
