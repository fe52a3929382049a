"""Abort a live migration whose guest moves: the source stops, and the migration's own run goes back."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.order_live_migration import AbortMove

ABORT_LIVE_MIGRATION = Flow(
    "abort_live_migration",
    version=1,
    steps=(AbortMove(),),  # no undo: the migration's run hears from its source what became of it
)
