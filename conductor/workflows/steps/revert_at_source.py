"""Bring the guest back at its source as it was. From here on it only goes forward: it may run there already."""

from __future__ import annotations

from typing import Any

from conductor.rpc.messages import RevertMigration
from conductor.workflows.flow import UNTIL_DONE, RemoteStep, Work
from conductor.workflows.steps import instance_rows, move_rows
from conductor.workflows.steps.on_host import addressed, guest_of


class RevertAtSource(RemoteStep):
    title = "Bring back at source"
    event = "compute_finish_revert_resize"
    retry = UNTIL_DONE

    def command(self, work: Work) -> Any:
        migration = move_rows.read(work)
        return RevertMigration(
            **addressed(work, migration.source_host),
            guest=guest_of(work, instance_rows.read(work), flavor=move_rows.old_flavor(migration)),
            is_running=migration.was_running,
        )
