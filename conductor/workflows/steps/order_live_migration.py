"""Tell a source that moves a running guest to stop, or to switch now."""

from __future__ import annotations

from typing import Any

from conductor.core.states import LIVE_RUN_STATES, StepState
from conductor.journal.models import StepRecord
from conductor.rpc.messages import AbortLiveMigration, ForceLiveMigration
from conductor.workflows.flow import RemoteStep, Work
from conductor.workflows.steps.move_live import MoveLive
from conductor.workflows.steps.on_host import addressed


class OrderLiveMigration(RemoteStep):
    """The order carries the token of the run that moves the guest: a newer one would outdate the move itself.

    Where the move has ended meanwhile there is nothing to order. No undo: an order cannot be taken back.
    """

    message: type[AbortLiveMigration] | type[ForceLiveMigration]

    def command(self, work: Work) -> Any:
        moving = StepRecord.objects.using(work.alias).filter(
            run__uuid=work.inputs["live_run_uuid"],
            run__state__in=LIVE_RUN_STATES,
            name=MoveLive.name,
            direction="do",
            state=StepState.WAITING,
        )
        record = moving.order_by("-pk").first()
        if record is None:
            return None
        return self.message(**{**addressed(work, record.host), "fencing_token": record.fencing_token})


class AbortMove(OrderLiveMigration):
    name = "AbortMove"
    title = "Stop the move"
    event = "compute_live_migration_abort"
    message = AbortLiveMigration


class ForceMove(OrderLiveMigration):
    name = "ForceMove"
    title = "Switch now"
    event = "compute_live_migration_force_complete"
    message = ForceLiveMigration
