"""Have a live migration switch now, with the guest paused for as long as that takes."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.order_live_migration import ForceMove

FORCE_LIVE_MIGRATION = Flow(
    "force_live_migration",
    version=1,
    steps=(ForceMove(),),  # no undo: the migration's run hears from its source what became of it
)
