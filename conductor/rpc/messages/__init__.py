"""Every message on the wire."""

from conductor.rpc.messages.to_compute import DestroyInstance, SpawnInstance
from conductor.rpc.messages.to_conductor import ConsoleWritten, HostReported, StepAnswered, StepProgressed

__all__ = [
    "ConsoleWritten",
    "DestroyInstance",
    "HostReported",
    "SpawnInstance",
    "StepAnswered",
    "StepProgressed",
]
