"""What a simulated guest would have counted since its start: waves, so that whoever looks sees something move."""

from __future__ import annotations

from collections.abc import Mapping
from math import cos, sin
from typing import Any

from compute_drivers.fake.notes import Note

NANOSECONDS = 1_000_000_000
WAVE_SECONDS = 20.0


def figures(note: Note, now: float) -> Mapping[str, Any]:
    """In the words of `ComputeDriver.diagnostics`; nothing that is a sum ever goes back."""
    age = max(0.0, now - note.started_at)
    beat = age + (1 - cos(age / WAVE_SECONDS)) * WAVE_SECONDS / 2  # by half faster, then by half slower, than time
    disk = {"read_bytes": int(beat * 40_000), "write_bytes": int(beat * 90_000)}
    card = {"rx_octets": int(beat * 25_000), "tx_octets": int(beat * 11_000)}
    share = 0.4 + 0.1 * sin(age / WAVE_SECONDS)
    return {
        "cpus": [{"id": number, "time": int(beat * 0.3 * NANOSECONDS)} for number in range(note.vcpus)],
        "memory": {"maximum": note.memory_mb, "used": max(1, int(note.memory_mb * share))},
        "disks": [disk] * (1 + len(note.volumes)),
        "nics": [{"mac_address": port["mac_address"], **card} for port in note.ports.values()],
    }
