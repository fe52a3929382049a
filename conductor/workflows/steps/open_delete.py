"""Open the instance's delete in its cell, once that answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import InterfaceError, OperationalError

from conductor.cells import quarantine
from conductor.core.errors import CellUnavailable, Conflict
from conductor.rpc import deletes
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work


class OpenDelete(Step):
    """A server that has gone by itself needs nothing more. One that is locked stays, and the wish has failed."""

    title = "Hand over to cell"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        cell = work.inputs["cell"]
        quarantine.refuse(cell)
        try:
            with work.fenced(cell):
                is_there = deletes.open_delete(cell, work.context, work.instance_uuid, parent_uuid=work.run.uuid)
        except (OperationalError, InterfaceError):
            raise CellUnavailable(f"The cell {cell} does not answer.") from None
        return {"is_there": is_there}

    def is_final(self, work: Work, error: Mapping[str, Any]) -> bool:
        return bool(error["class"] == Conflict.__name__)  # it is locked; others of its kind pass
