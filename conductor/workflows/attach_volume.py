"""Attach volume: the server gets a volume while it runs, is off, or is on no host at all."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.attach_on_host import AttachOnHost
from conductor.workflows.steps.give_device_up import GiveDeviceUp
from conductor.workflows.steps.mark_attached import MarkAttached
from conductor.workflows.steps.reserve_volume import ReserveVolume

ATTACH_VOLUME = Flow(
    "attach_volume",
    version=1,
    steps=(
        ReserveVolume(),  # nobody else gets it; revert frees it
        AttachOnHost(),  # one message to the host, the run parks; revert takes it from the guest
        MarkAttached(),
    ),
    on_failure=GiveDeviceUp(),
    on_cancel=GiveDeviceUp(),
)
