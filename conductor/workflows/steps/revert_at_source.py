"""Bring the guest back at its source as it was. From here on it goes forward: it may run there already.

Only a source that somebody has made sure is off cannot run it. Then the guest goes on at its destination, and the
source is told to keep its half off, before anything else, should it come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.cells.silence import is_fenced
from conductor.core.errors import HostSilent
from conductor.rpc.messages import MigrateOut, RevertMigration
from conductor.workflows.flow import UNTIL_DONE, RemoteStep, Work
from conductor.workflows.steps import instance_rows, move_rows
from conductor.workflows.steps.on_host import addressed, guest_of


class RevertAtSource(RemoteStep):
    title = "Bring back at source"
    event = "compute_finish_revert_resize"
    retry = UNTIL_DONE

    def is_final(self, work: Work, error: Mapping[str, Any]) -> bool:
        migration = move_rows.read(work)
        if error.get("class") != HostSilent.__name__ or move_rows.stays_on_host(migration):
            return False
        return is_fenced(work.alias, migration.source_host)

    def command(self, work: Work) -> Any:
        return RevertMigration(**self._source(work), is_running=move_rows.read(work).was_running)

    def revert_command(self, work: Work) -> Any:
        return MigrateOut(**self._source(work), destination=move_rows.read(work).destination_host or "")

    def _source(self, work: Work) -> dict[str, Any]:
        """Who is to do what to the guest in its old size."""
        migration = move_rows.read(work)
        guest = guest_of(work, instance_rows.read(work), flavor=move_rows.old_flavor(migration))
        return {**addressed(work, migration.source_host), "guest": guest}
