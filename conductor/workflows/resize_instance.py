"""Resize, and move with the guest off: to a host that is claimed first, and back again in any failure."""

from __future__ import annotations

from django.conf import settings

from conductor.core.states import MigrationStatus
from conductor.workflows.flow import Flow, Work
from conductor.workflows.steps.look_at_source import LookAtSource
from conductor.workflows.steps.mark_move_failed import MarkMoveFailed
from conductor.workflows.steps.mark_resized import MarkResized
from conductor.workflows.steps.migrate_in import MigrateInAtDestination
from conductor.workflows.steps.migrate_out import MigrateOutOfSource
from conductor.workflows.steps.move_ports import MovePortsOut
from conductor.workflows.steps.pick_destination import PickDestination
from conductor.workflows.steps.reserve_quota import ReserveQuota


class ResizeInstance(Flow):
    def next_attempt(self, work: Work) -> bool:
        return not work.inputs.get("host")  # who names a host means that one


RESIZE_INSTANCE = ResizeInstance(
    "resize_instance",
    version=1,
    steps=(
        LookAtSource(),  # it is still there, and what it holds there is noted; no undo, as it only looks
        ReserveQuota(),  # the larger of both sizes until it is settled; revert gives the growth back
        PickDestination(),  # claimed there; what is held here goes to the migration; revert moves it back
        MigrateOutOfSource(),  # the guest stops, its disks can be fetched; revert brings it back as it was
        MovePortsOut(),  # ports are bound to the destination; revert binds them back
        MigrateInAtDestination(),  # the guest is built there in its new size; revert destroys it
        MarkResized(),  # VERIFY_RESIZE: host and size are the new ones; no undo, as nothing can fail after it
    ),
    on_failure=MarkMoveFailed(MigrationStatus.ERROR),
    on_cancel=MarkMoveFailed(MigrationStatus.CANCELLED),
    max_attempts=settings.NOVELLA_MAX_BUILD_ATTEMPTS,
)
