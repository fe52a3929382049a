"""Swap volume: another volume takes the place of one, with its data, while the guest goes on."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.give_device_up import GiveDeviceUp
from conductor.workflows.steps.mark_swapped import MarkSwapped
from conductor.workflows.steps.reserve_volume import ReserveVolume
from conductor.workflows.steps.swap_on_host import SwapOnHost

SWAP_VOLUME = Flow(
    "swap_volume",
    version=1,
    steps=(
        ReserveVolume(),  # the new one: nobody else gets it; revert frees it
        SwapOnHost(),  # one message to the host, the run parks; revert has the guest back on the old one
        MarkSwapped(),
    ),
    on_failure=GiveDeviceUp(),
    on_cancel=GiveDeviceUp(),
    cancellable_until="MarkSwapped",
)
