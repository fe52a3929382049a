"""The guest has the other volume: it is the device that the first one was, and others may have that."""

from __future__ import annotations

from conductor.volume import operations
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work
from conductor.workflows.steps import devices, instance_rows


class MarkSwapped(Step):
    """No revert, and no cancel from here on: somebody else may have the old volume the next moment."""

    title = "Mark as swapped"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        old = devices.replaced(work)
        with work.fenced("default"):
            operations.replace(str(old.uuid), work.inputs["attachment_id"], old.device_name)
        return {}

    def apply(self, work: Work, result: Result) -> None:
        """Name, tag and all that was said of the device stay."""
        old, new = devices.replaced(work), devices.read(work)
        old.delete()
        devices.rows(work).update(
            device_name=old.device_name,
            boot_index=old.boot_index,
            tag=old.tag,
            delete_on_termination=old.delete_on_termination,
            connection=devices.in_place_of(old, new.connection),
        )
        instance_rows.update(work)
