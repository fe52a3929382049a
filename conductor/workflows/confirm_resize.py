"""Confirm: the new size stays, and nothing is left of the old one."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.confirm_at_source import ConfirmAtSource
from conductor.workflows.steps.mark_confirmed import MarkConfirmed
from conductor.workflows.steps.settle_move import SettleMove

CONFIRM_RESIZE = Flow(
    "confirm_resize",
    version=1,
    steps=(
        ConfirmAtSource(),  # the old disks go; a silent source is told when it comes back
        SettleMove(),  # what the migration held at the source is free
        MarkConfirmed(),
    ),
    cancellable_until=None,  # it was confirmed: there is nothing to go back to
)
