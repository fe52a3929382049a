"""Remove the guest that was built at the destination: it is back at its source."""

from __future__ import annotations

from typing import Any

from conductor.rpc.messages import DestroyInstance
from conductor.workflows.flow import UNTIL_DONE, RemoteStep, Work
from conductor.workflows.steps import move_rows
from conductor.workflows.steps.on_host import addressed


class DestroyAtDestination(RemoteStep):
    title = "Destroy at destination"
    retry = UNTIL_DONE

    def command(self, work: Work) -> Any:
        migration = move_rows.read(work)
        if move_rows.stays_on_host(migration):  # the source has replaced it already
            return None
        return DestroyInstance(**addressed(work, migration.destination_host or ""))
