"""Drain: nothing new comes to a host, and every server on it moves away, until it is empty."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.close_host import CloseHost, OpenHost
from conductor.workflows.steps.empty_host import EmptyHost

DRAIN_HOST = Flow(
    "drain_host",
    version=1,
    steps=(
        CloseHost(),  # closed to new work
        EmptyHost(),  # parks while workflows of their own move its servers; no undo: what has left stays away
    ),
    on_failure=OpenHost(),  # as before, unless it is to stay closed
    on_cancel=OpenHost(),
)
