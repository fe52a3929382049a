"""Delete so that it can be undone for a while: the guest goes off and keeps what it has."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import PowerOffWhereHeard
from conductor.workflows.steps.set_soft_deleted import SetSoftDeleted

_END = EndAction()

SOFT_DELETE_INSTANCE = Flow(
    "soft_delete_instance",
    version=1,
    steps=(
        PowerOffWhereHeard(),  # no revert: it was to go
        SetSoftDeleted(),
    ),
    on_failure=_END,
    on_cancel=_END,
)
