"""Tell a source that moves a running guest to stop, to switch now, or to go on in another way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.states import LIVE_RUN_STATES, StepState
from conductor.journal.models import StepRecord
from conductor.rpc.messages import AbortLiveMigration, ForceLiveMigration, SteerLiveMigration
from conductor.workflows.flow import RemoteStep, Work
from conductor.workflows.steps.move_live import MoveLive
from conductor.workflows.steps.on_host import addressed


class OrderLiveMigration(RemoteStep):
    """The order carries the token of the run that moves the guest: a newer one would outdate the move itself.

    Where the move has ended meanwhile there is nothing to order. No undo: an order cannot be taken back.
    """

    message: type[AbortLiveMigration] | type[ForceLiveMigration] | type[SteerLiveMigration]

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
        where = {**addressed(work, record.host), "fencing_token": record.fencing_token}
        return self.message(**where, **self.what(work))

    def what(self, work: Work) -> Mapping[str, Any]:
        """The further fields of the message."""
        return {}


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


class SteerMove(OrderLiveMigration):
    title = "Steer the move"
    event = "compute_live_migration_steer"
    message = SteerLiveMigration

    def what(self, work: Work) -> Mapping[str, Any]:
        return {"kind": work.inputs["kind"], "amount": work.inputs["amount"]}
