"""Ask the destination whether the guest has arrived, and make it permanent there. From here on it only goes forward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.states import MigrationStatus
from conductor.rpc.messages import FinishLiveMigration
from conductor.workflows.flow import UNTIL_DONE, RemoteStep, Result, Work
from conductor.workflows.steps import instance_rows, move_rows
from conductor.workflows.steps.move_live import is_unsure
from conductor.workflows.steps.on_host import addressed, guest_of


class FinishAtDestination(RemoteStep):
    """After a source that cannot tell it decides: a destination without such a guest means that it never left."""

    title = "Finish at destination"
    event = "compute_post_live_migration_at_destination"
    retry = UNTIL_DONE

    def apply_start(self, work: Work) -> None:
        move_rows.update(work, status=MigrationStatus.POST_MIGRATING)

    def command(self, work: Work) -> Any:
        return FinishLiveMigration(
            **addressed(work, move_rows.read(work).destination_host or ""),
            guest=guest_of(work, instance_rows.read(work)),
        )

    def is_final(self, work: Work, error: Mapping[str, Any]) -> bool:
        return error.get("class") == "GuestMissing" and is_unsure(work)

    def apply(self, work: Work, result: Result) -> None:
        chosen = move_rows.chosen(work)
        instance_rows.update(work, host=chosen.host, node=chosen.node, availability_zone=chosen.availability_zone)
