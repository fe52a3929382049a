"""Have the host give the guest the volume, as large as it is; a server without a host gets it when it has one."""

from __future__ import annotations

from typing import Any

from conductor.rpc.messages import AttachVolume, DetachVolume
from conductor.workflows.flow import RemoteStep, Work
from conductor.workflows.steps import devices, instance_rows
from conductor.workflows.steps.on_host import addressed


class AttachOnHost(RemoteStep):
    title = "Attach on host"
    event = "compute_attach_volume"

    def command(self, work: Work) -> Any:
        host = instance_rows.read(work).host
        return AttachVolume(**addressed(work, host), volume=devices.read(work).connection) if host else None

    def revert_command(self, work: Work) -> Any:
        host = instance_rows.read(work).host
        return DetachVolume(**addressed(work, host), volume_uuid=work.inputs["volume_id"]) if host else None


class GrowOnHost(RemoteStep):
    """Attached once more: the guest keeps the volume, and sees the size that it has by now."""

    title = "Show the guest its size"
    event = "compute_extend_volume"

    def command(self, work: Work) -> Any:
        host, device = instance_rows.read(work).host, devices.rows(work).first()
        return AttachVolume(**addressed(work, host), volume=device.connection) if host and device else None
