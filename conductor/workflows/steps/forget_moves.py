"""A server that is deleted before its move was confirmed has left disks at its source: they go too."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from conductor.cell_db.models import Migration
from conductor.core.states import MigrationStatus
from conductor.rpc.messages import ConfirmMigration
from conductor.workflows.flow import UNTIL_DONE, RemoteStep, Work
from conductor.workflows.steps.on_host import addressed

# After these nothing is left at the other host.
CLEAN = (
    MigrationStatus.CONFIRMED,
    MigrationStatus.REVERTED,
    MigrationStatus.DONE,
    MigrationStatus.COMPLETED,
    MigrationStatus.CANCELLED,
    MigrationStatus.FAILED,
)


def open_moves(work: Work) -> QuerySet[Migration]:
    """Moves of the instance that may have left something, newest first."""
    moves = Migration.objects.using(work.alias).filter(instance_uuid=work.instance_uuid)
    return moves.exclude(status__in=CLEAN).order_by("-pk")


class ForgetAtSource(RemoteStep):
    title = "Forget at the source of a move"
    retry = UNTIL_DONE

    def command(self, work: Work) -> Any:
        move = open_moves(work).first()
        return ConfirmMigration(**addressed(work, move.source_host)) if move else None
