"""After a source fell silent, or lost its guest in a failure: let nothing more arrive, then ask what has arrived."""

from __future__ import annotations

from typing import Any

from conductor.rpc.messages import CancelLiveMigration
from conductor.workflows.flow import UNTIL_DONE, RemoteStep, Work
from conductor.workflows.steps import move_rows
from conductor.workflows.steps.move_live import is_unsure
from conductor.workflows.steps.on_host import addressed


class CloseDestination(RemoteStep):
    """It never ends a guest that has arrived. No undo: what comes before it undoes it by the same command."""

    title = "Close destination"
    retry = UNTIL_DONE

    def command(self, work: Work) -> Any:
        if not is_unsure(work):
            return None
        return CancelLiveMigration(**addressed(work, move_rows.read(work).destination_host or ""))
