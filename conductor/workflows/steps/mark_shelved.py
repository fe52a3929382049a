"""The server is shelved: off, with its disk kept as an image. Its host is given up at once where that is the rule."""

from __future__ import annotations

from django.conf import settings

from conductor.core.states import TaskState, VmState
from conductor.rpc import outbox
from conductor.transactions import database_now
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import instance_rows


class MarkShelved(Step):
    """No revert: it is the last step. Offloading is a workflow of its own, which waits for this one's locks."""

    title = "Mark as shelved"
    lane = "Cell conductor"

    def apply(self, work: Work, result: Result) -> None:
        image_id = work.inputs.get("image_id", "")  # none where the root disk is a volume, which is kept as it is
        is_offloaded_now = settings.NOVELLA_SHELVED_OFFLOAD_SECONDS == 0 or not image_id
        instance_rows.update(
            work,
            previous_vm_state=instance_rows.read(work).vm_state,
            vm_state=VmState.SHELVED,
            task_state=TaskState.SHELVING_OFFLOADING if is_offloaded_now else None,
            shelved_image_id=image_id,
            shelved_at=database_now(),
        )
        if is_offloaded_now:
            _open_offload(work)


def _open_offload(work: Work) -> None:
    wanted = outbox.NewRun(
        flow="offload_instance",
        action=work.run.action,
        context=work.context,
        resources=[f"instance:{work.instance_uuid}"],
        instance_uuid=work.instance_uuid,
        instance_name=work.run.instance_name,
        parent_uuid=work.run.uuid,
    )
    outbox.open_run(work.alias, wanted, may_wait=True)
