"""What an agent is told about each host that it serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class HostConfig:
    """One host: its name and cell, the driver by name with its options, and the file of its journal.

    `most_at_once` is how many commands of this host may run side by side: a driver that hangs holds no more threads.
    """

    host: str
    cell: str
    driver: str
    journal_path: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    availability_zone: str = "nova"
    most_at_once: int = 8
