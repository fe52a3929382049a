"""Steer a live migration under way: a longer pause, less of the processors for its guest, or a switch to post-copy."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.order_live_migration import SteerMove

STEER_LIVE_MIGRATION = Flow(
    "steer_live_migration",
    version=1,
    steps=(SteerMove(),),  # no undo: the move goes on either way, and what was ordered ends with it
)
