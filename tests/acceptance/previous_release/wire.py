"""The messages of the previous release, as separate classes."""

from __future__ import annotations

from typing import Any, ClassVar

from conductor.actors import conductor as conductor_actors
from conductor.compute import handlers
from conductor.rpc import codec
from conductor.rpc.messages import CheckBuild, SpawnInstance, StepProgressed
from conductor.rpc.messages.to_compute import Command
from conductor.rpc.versions import known_to
from conductor.workflows.flows.build import CheckOnHost

# Members that only the newest release sends.
UNKNOWN = ("consoles_written",)


def take_over(service_version: int) -> None:
    """Make this process send and accept only the messages of that service version."""
    known = known_to(service_version)
    for name in list(codec._types):
        if name not in known or name in UNKNOWN:
            del codec._types[name]

    @codec.message("spawn_instance", version="1.0")
    class OldSpawnInstance(Command):
        """Spawn command that always starts the guest."""

        is_running: ClassVar[bool] = True
        guest: dict[str, Any]

    @codec.message("step_progressed", version="1.0")
    class OldStepProgressed:
        """Progress report without figures."""

        figures: ClassVar[dict[str, int]] = {}
        step_key: str
        run_uuid: str
        fencing_token: int
        host: str
        message: str
        share: float | None = None

    if CheckBuild.MESSAGE_NAME not in known:
        CheckOnHost.command = lambda self, work: None  # it builds without asking

    handlers.HANDLERS[OldSpawnInstance] = handlers.HANDLERS[SpawnInstance]
    conductor_actors.RECEIVERS[OldStepProgressed] = conductor_actors.RECEIVERS[StepProgressed]
