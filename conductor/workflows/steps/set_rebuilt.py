"""The guest has its new disks: the instance is from now on what was asked for."""

from __future__ import annotations

from typing import Any

from conductor.core.states import PowerState, VmState
from conductor.workflows.flow import Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.set_state import SetState

# What was for the root volume.
OF_VOLUME = ("volume_image", "volume_image_metadata")


class SetRebuilt(SetState):
    """A guest that was off stays off. Until here the row tells of the old image, whatever becomes of the rebuild."""

    def __init__(self) -> None:
        super().__init__(launches=True)

    def more(self, work: Work) -> dict[str, Any]:
        is_off = instance_rows.read(work).vm_state == VmState.STOPPED
        values = {name: value for name, value in work.inputs["values"].items() if name not in OF_VOLUME}
        if "user_data" in work.secrets:
            values["user_data"] = work.secrets["user_data"]
        if "injected_files" in work.secrets:
            values["injected_files"] = work.secrets["injected_files"] or None
        return {
            **values,
            "vm_state": VmState.STOPPED if is_off else VmState.ACTIVE,
            "power_state": PowerState.SHUTDOWN if is_off else PowerState.RUNNING,
        }
