"""A server that is deleted before its move was confirmed has left disks at its source: they go too."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db.models import Q, QuerySet

from conductor.cell_db.models import Migration, Service
from conductor.core.states import MigrationStatus, MigrationType
from conductor.rpc import outbox
from conductor.rpc.messages import ConfirmMigration
from conductor.workflows.flow import UNTIL_DONE, RemoteStep, Work
from conductor.workflows.steps.on_host import addressed

# After these nothing is left at the other host, unless that one still has to do what it was sent.
COLD = (MigrationType.RESIZE, MigrationType.MIGRATION)  # those that put disks aside at their source
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
    cancelled = Q(status=MigrationStatus.CANCELLED, migration_type__in=COLD)
    hosts = set(moves.filter(cancelled).values_list("source_host", flat=True))
    is_cut_off = cancelled & Q(source_host__in=_with_something_left(work, hosts))
    return moves.filter(~Q(status__in=CLEAN) | is_cut_off).order_by("-pk")


def _with_something_left(work: Work, hosts: Collection[str]) -> set[str]:
    """Those of these hosts that still have a command of the instance to carry out, or say that they keep its disks."""
    if not hosts:
        return set()
    deferred = outbox.owed_about(work.alias, work.instance_uuid).filter(host__in=hosts)
    said = Service.objects.using(work.alias).filter(host__in=hosts, kept__isnull=False).values_list("host", "kept")
    keeping = {host for host, kept in said if work.instance_uuid in (kept or ())}
    return keeping.union(deferred.values_list("host", flat=True))


class ForgetAtSource(RemoteStep):
    title = "Forget at the source of a move"
    retry = UNTIL_DONE

    def command(self, work: Work) -> Any:
        move = open_moves(work).first()
        return ConfirmMigration(**addressed(work, move.source_host)) if move else None
