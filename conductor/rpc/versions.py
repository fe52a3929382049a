"""The service version: one integer that rises with every change on the wire."""

from __future__ import annotations

SERVICE_VERSION_HISTORY = (
    "spawn_instance, destroy_instance; step_answered, step_progressed, host_reported, console_written: all 1.0",
    "a command for each verb of drivers, all 1.0; spawn_instance 1.1 (is_running); step_progressed 1.1 (figures)",
)

SERVICE_VERSION = len(SERVICE_VERSION_HISTORY)
