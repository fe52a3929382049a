"""Have the host end the guest and remove all that it has there."""

from __future__ import annotations

from typing import Any

from conductor.core.states import PowerState
from conductor.rpc.messages import DestroyInstance
from conductor.workflows.flow import UNTIL_DONE, RemoteStep, Result, Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.on_host import addressed


class DestroyOnHost(RemoteStep):
    title = "Destroy on host"
    event = "compute_terminate_instance"
    retry = UNTIL_DONE

    def command(self, work: Work) -> Any:
        host = instance_rows.read(work).host
        return DestroyInstance(**addressed(work, host)) if host else None

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(work, power_state=PowerState.NOSTATE)
