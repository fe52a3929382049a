"""Replace a guest's disks by new ones of an image; host, ports, addresses and volumes stay."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.check_rebuild import CheckRebuild, KeepRebuiltSpec
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.set_rebuilt import SetRebuilt

_END = EndAction(breaks_at="RebuildGuest")

REBUILD_INSTANCE = Flow(
    "rebuild_instance",
    version=1,
    steps=(
        CheckRebuild(),  # another image must suit the host; nothing is lost when it does not
        OnGuest("RebuildGuest"),  # no revert: the old disks are gone, so a failure from here on is an error
        KeepRebuiltSpec(),  # no revert: what the request asks for is the new image by now
        SetRebuilt(),
    ),
    on_failure=_END,
    on_cancel=_END,
)
