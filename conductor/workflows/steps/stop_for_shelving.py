"""Have the host turn the guest off: what is copied then is whole."""

from __future__ import annotations

from typing import Any

from conductor.core.states import PowerState, VmState
from conductor.rpc.messages import PowerOff, PowerOn
from conductor.workflows.flow import RemoteStep, Result, Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.on_host import addressed, guest_of


class StopForShelving(RemoteStep):
    title = "Turn off"

    def command(self, work: Work) -> Any:
        instance = instance_rows.read(work)
        if instance.vm_state == VmState.STOPPED:
            return None
        return PowerOff(**addressed(work, instance.host or ""))

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(work, power_state=PowerState.SHUTDOWN)

    def revert_command(self, work: Work) -> Any:
        instance = instance_rows.read(work)
        if instance.vm_state == VmState.STOPPED:
            return None
        return PowerOn(**addressed(work, instance.host or ""), guest=guest_of(work, instance))

    def apply_revert(self, work: Work) -> None:
        """It runs anew, so it is neither paused nor suspended any more."""
        if instance_rows.read(work).vm_state != VmState.STOPPED:
            instance_rows.update(work, vm_state=VmState.ACTIVE, power_state=PowerState.RUNNING)
