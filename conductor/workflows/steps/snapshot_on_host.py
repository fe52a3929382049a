"""Have the host copy the guest's root disk into the image."""

from __future__ import annotations

from typing import Any

from conductor.core.states import TaskState
from conductor.rpc.messages import SnapshotInstance
from conductor.workflows.flow import RemoteStep, Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.on_host import addressed


class SnapshotOnHost(RemoteStep):
    """No revert: the guest stays as it is, and what was copied goes with the image."""

    title = "Copy disk"
    event = "compute_snapshot_instance"
    shows = TaskState.IMAGE_UPLOADING

    def apply_start(self, work: Work) -> None:
        instance_rows.update(work, task_state=self.shows)

    def command(self, work: Work) -> Any:
        host = instance_rows.read(work).host or ""
        return SnapshotInstance(**addressed(work, host), image_id=work.inputs["image_id"])
