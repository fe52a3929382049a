"""Have the source remove what it kept for going back."""

from __future__ import annotations

from typing import Any

from conductor.core.states import MigrationStatus
from conductor.rpc.messages import ConfirmMigration
from conductor.workflows.flow import UNTIL_DONE, RemoteStep, Work
from conductor.workflows.steps import move_rows
from conductor.workflows.steps.on_host import addressed


class ConfirmAtSource(RemoteStep):
    title = "Forget at source"
    event = "compute_confirm_resize"
    retry = UNTIL_DONE

    def apply_start(self, work: Work) -> None:
        move_rows.update(work, status=MigrationStatus.CONFIRMING)

    def command(self, work: Work) -> Any:
        return ConfirmMigration(**addressed(work, move_rows.read(work).source_host))
