"""Have the host copy one volume into another, and give the guest that one in its place."""

from __future__ import annotations

from typing import Any

from conductor.rpc.messages import SwapVolume
from conductor.workflows.flow import RemoteStep, Work
from conductor.workflows.steps import devices, instance_rows
from conductor.workflows.steps.on_host import addressed


class SwapOnHost(RemoteStep):
    """The way back copies as well: what the guest wrote since is on the new volume alone."""

    title = "Swap on host"
    event = "compute_swap_volume"

    def command(self, work: Work) -> Any:
        old, new = devices.replaced(work), devices.read(work)
        return self._swap(work, str(old.volume_uuid), devices.in_place_of(old, new.connection))

    def revert_command(self, work: Work) -> Any:
        return self._swap(work, work.inputs["volume_id"], devices.replaced(work).connection)

    def _swap(self, work: Work, old_uuid: str, volume: dict[str, Any]) -> Any:
        to = addressed(work, instance_rows.read(work).host or "")
        return SwapVolume(**to, old_volume_uuid=old_uuid, volume=volume)
