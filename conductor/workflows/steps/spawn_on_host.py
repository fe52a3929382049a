"""Have the host build and start the guest."""

from __future__ import annotations

from typing import Any

from conductor.core.compute_driver import NetworkPort
from conductor.core.states import PowerState, TaskState
from conductor.rpc.messages import DestroyInstance, SpawnInstance
from conductor.workflows.flow import RemoteStep, Result, Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.on_host import addressed, fresh_guest_of
from conductor.workflows.steps.plug_networks import PlugNetworks


class SpawnOnHost(RemoteStep):
    title = "Spawn on host"
    event = "compute__do_build_and_run_instance"

    def apply_start(self, work: Work) -> None:
        instance_rows.update(work, task_state=TaskState.SPAWNING)

    def command(self, work: Work) -> Any:
        instance = instance_rows.read(work)
        ports = tuple(NetworkPort(**port) for port in work.result_of(PlugNetworks)["ports"])
        return SpawnInstance(**addressed(work, instance.host or ""), guest=fresh_guest_of(work, instance, ports=ports))

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(work, power_state=PowerState.RUNNING)

    def revert_command(self, work: Work) -> Any:
        host = instance_rows.read(work).host
        return DestroyInstance(**addressed(work, host)) if host else None

    def apply_revert(self, work: Work) -> None:
        instance_rows.update(work, power_state=PowerState.NOSTATE)
