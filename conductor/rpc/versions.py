"""The service version: one integer that rises with every change on the wire."""

from __future__ import annotations

SERVICE_VERSION_HISTORY = (
    "spawn_instance, destroy_instance; step_answered, step_progressed, host_reported, console_written: all 1.0",
)

SERVICE_VERSION = len(SERVICE_VERSION_HISTORY)
