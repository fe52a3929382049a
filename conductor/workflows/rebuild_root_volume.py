"""Rebuild a server whose root disk is a volume: it gets the image's data. Host, ports and other volumes stay."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.check_rebuild import CheckRebuild
from conductor.workflows.steps.end_action import EndAction
from conductor.workflows.steps.on_guest import OnGuest
from conductor.workflows.steps.refill_root_volume import RefillRootVolume
from conductor.workflows.steps.set_rebuilt import SetRebuilt

_END = EndAction(breaks_at="RefillRootVolume")

REBUILD_ROOT_VOLUME = Flow(
    "rebuild_root_volume",
    version=1,
    steps=(
        CheckRebuild(),  # another image must suit the host; nothing is lost when it does not
        OnGuest("EndGuest"),  # nobody may write to the volume; revert starts a guest that ran
        RefillRootVolume(),  # no revert: the old data are gone, so a failure from here on is an error
        OnGuest("RebuildGuest"),  # disks of the host's own are new too
        SetRebuilt(),
    ),
    on_failure=_END,
    on_cancel=_END,
)
