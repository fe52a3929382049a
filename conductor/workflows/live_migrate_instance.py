"""Live migration: the guest goes on while it moves, and what hosts say about it decides where it is."""

from __future__ import annotations

from conductor.core.states import MigrationStatus
from conductor.workflows.flow import Flow, Work
from conductor.workflows.steps.close_destination import CloseDestination
from conductor.workflows.steps.finish_at_destination import FinishAtDestination
from conductor.workflows.steps.look_at_source import LookAtSource
from conductor.workflows.steps.mark_move_failed import MarkMoveFailed
from conductor.workflows.steps.mark_moved import MarkMoved
from conductor.workflows.steps.move_live import MoveLive
from conductor.workflows.steps.move_ports import MovePortsWithGuest
from conductor.workflows.steps.pick_destination import PickDestination, tried_hosts
from conductor.workflows.steps.prepare_at_destination import PrepareAtDestination
from conductor.workflows.steps.settle_move import SettleMove

MOST_DESTINATIONS = 10


class LiveMigrateInstance(Flow):
    def next_attempt(self, work: Work) -> bool:
        """Other hosts are tried as long as the guest has not begun to move, unless one was named."""
        has_begun = work.run.steps.using(work.alias).filter(name=MoveLive.name, attempt=work.attempt).exists()
        return not has_begun and not work.inputs.get("host") and len(tried_hosts(work)) < MOST_DESTINATIONS


LIVE_MIGRATE_INSTANCE = LiveMigrateInstance(
    "live_migrate_instance",
    version=1,
    steps=(
        LookAtSource(),  # it is still there, and what it holds there is noted; no undo, as it only looks
        PickDestination(),  # claimed there; what is held here goes to the migration; revert moves it back
        PrepareAtDestination(),  # the destination listens; revert removes what was prepared, never a guest
        MoveLive(),  # the run parks while the guest moves; no undo: in any failure the guest goes on at its source
        CloseDestination(),  # only after a silent source: nothing can arrive any more, so that the next answer is final
        FinishAtDestination(),  # the guest has arrived: from here it only goes forward, so nothing is undone
        MovePortsWithGuest(),
        SettleMove(),  # what the migration held at the source is free
        MarkMoved(),
    ),
    on_failure=MarkMoveFailed(MigrationStatus.FAILED),
    on_cancel=MarkMoveFailed(MigrationStatus.CANCELLED),
    max_attempts=MOST_DESTINATIONS,
    cancellable_until="MoveLive",  # a guest that moves is stopped by its source: see abort_live_migration
)
