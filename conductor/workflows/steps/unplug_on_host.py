"""Have the host take the port from the guest."""

from __future__ import annotations

from typing import Any

from conductor.rpc.messages import AttachInterface, DetachInterface
from conductor.workflows.flow import RemoteStep, Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.on_host import addressed


class UnplugOnHost(RemoteStep):
    title = "Detach on host"
    event = "compute_detach_interface"

    def command(self, work: Work) -> Any:
        host = instance_rows.read(work).host or ""
        return DetachInterface(**addressed(work, host), port_uuid=work.inputs["port_id"])

    def revert_command(self, work: Work) -> Any:
        instance = instance_rows.read(work)
        plugged = [port for port in instance.addresses if port["port_uuid"] == work.inputs["port_id"]]
        return AttachInterface(**addressed(work, instance.host or ""), port=plugged[0]) if plugged else None
