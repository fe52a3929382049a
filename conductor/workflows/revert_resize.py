"""Revert: the guest stops where it is, comes back where it was, and nothing is left of the new size."""

from __future__ import annotations

from conductor.core.states import MigrationStatus
from conductor.workflows.flow import Flow
from conductor.workflows.steps.destroy_at_destination import DestroyAtDestination
from conductor.workflows.steps.mark_move_failed import MarkMoveFailed
from conductor.workflows.steps.mark_reverted import MarkReverted
from conductor.workflows.steps.move_ports import MovePortsBack
from conductor.workflows.steps.revert_at_source import RevertAtSource
from conductor.workflows.steps.step_back import StepBack
from conductor.workflows.steps.stop_at_destination import StopAtDestination

REVERT_RESIZE = Flow(
    "revert_resize",
    version=1,
    steps=(
        StopAtDestination(),  # stopped, not destroyed: should the source fail, it goes on here; revert starts it
        MovePortsBack(),  # ports are bound to the source; revert binds them to the destination
        RevertAtSource(),  # the guest comes back as it was; it only goes back when the source is known to be off
        DestroyAtDestination(),  # a silent destination is told again until it has done it
        StepBack(),  # the migration's allocation is the instance's again, and so is the old share of the quota
        MarkReverted(),
    ),
    on_failure=MarkMoveFailed(MigrationStatus.FINISHED),  # still to be confirmed or reverted
    on_cancel=MarkMoveFailed(MigrationStatus.FINISHED),
    cancellable_until="RevertAtSource",
)
