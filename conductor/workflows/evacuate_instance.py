"""Evacuate: build the instance anew on a living host, after its own was fenced off."""

from __future__ import annotations

from django.conf import settings

from conductor.core.states import MigrationStatus, VmState
from conductor.workflows.flow import Flow, Work
from conductor.workflows.steps.look_at_source import LookAtSource
from conductor.workflows.steps.mark_evacuated import MarkEvacuated
from conductor.workflows.steps.mark_move_failed import MarkMoveFailed
from conductor.workflows.steps.move_ports import MovePorts
from conductor.workflows.steps.pick_destination import PickDestination
from conductor.workflows.steps.spawn_at_destination import SpawnAtDestination


class EvacuateInstance(Flow):
    def next_attempt(self, work: Work) -> bool:
        return not work.inputs.get("host")  # who names a host means that one


EVACUATE_INSTANCE = EvacuateInstance(
    "evacuate_instance",
    version=1,
    steps=(
        LookAtSource(),  # it is still there, and what it holds there is noted; no undo, as it only looks
        PickDestination(),  # claimed there; what is held at the dead host stays the migration's until that is clean
        MovePorts(),  # ports are bound to the destination; revert binds them back
        SpawnAtDestination(),  # one command to the destination; revert destroys what it built, or hands the disks back
        MarkEvacuated(),
    ),
    on_failure=MarkMoveFailed(MigrationStatus.ERROR, vm_state=VmState.ERROR),
    on_cancel=MarkMoveFailed(MigrationStatus.CANCELLED, vm_state=VmState.ERROR),
    max_attempts=settings.NOVELLA_MAX_BUILD_ATTEMPTS,
)
