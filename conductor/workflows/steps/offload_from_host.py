"""Have the host let the shelved guest go; its volumes stay."""

from __future__ import annotations

from conductor.core.states import TaskState
from conductor.workflows.flow import Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.destroy_on_host import DestroyOnHost


class OffloadFromHost(DestroyOnHost):
    """No revert: the guest is off and kept as an image. A silent host is told when it comes back."""

    title = "Remove from host"
    event = "compute_shelve_offload_instance"

    def apply_start(self, work: Work) -> None:
        instance_rows.update(work, task_state=TaskState.SHELVING_OFFLOADING)
