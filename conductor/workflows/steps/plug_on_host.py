"""Have the host give the guest the port."""

from __future__ import annotations

from typing import Any

from conductor.rpc.messages import AttachInterface, DetachInterface
from conductor.workflows.flow import RemoteStep, Result, Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.on_host import addressed
from conductor.workflows.steps.plug_port import PlugPort


class PlugOnHost(RemoteStep):
    title = "Attach on host"
    event = "compute_attach_interface"

    def command(self, work: Work) -> Any:
        host = instance_rows.read(work).host or ""
        return AttachInterface(**addressed(work, host), port=work.result_of(PlugPort)["port"])

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(work)

    def revert_command(self, work: Work) -> Any:
        host = instance_rows.read(work).host or ""
        return DetachInterface(**addressed(work, host), port_uuid=work.inputs["port_id"])
