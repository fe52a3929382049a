"""Try a host: one small server is built there, must become active, and goes again; only then the host is opened."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.try_canary import BuildCanary, KeepHostClosed, OpenTriedHost, RemoveCanary

TRY_HOST = Flow(
    "try_host",
    version=1,
    steps=(
        BuildCanary(),  # parks while a workflow of its own builds it on this host
        RemoveCanary(),  # parks until it is gone, also when it failed: there is nothing to undo
        OpenTriedHost(),  # fails when the canary did
    ),
    on_failure=KeepHostClosed(),
    on_cancel=KeepHostClosed(),
    cancellable_until="OpenTriedHost",
)
