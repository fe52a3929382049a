"""Extend volume: a volume of the server has grown, and its guest is to see that while it runs."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.attach_on_host import GrowOnHost
from conductor.workflows.steps.end_action import EndAction

EXTEND_VOLUME = Flow(
    "extend_volume",
    version=1,
    steps=(
        GrowOnHost(),  # no revert: what has grown does not shrink
    ),
    on_failure=EndAction(),
    on_cancel=EndAction(),
)
