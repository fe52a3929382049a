"""Configuration of one host of an agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class HostConfig:
    """Configuration of one host.

    Attributes:
        driver: Name of the driver; `options` are its options.
        most_at_once: Maximum number of commands that run side by side, so that a driver that hangs blocks no more
            threads.
    """

    host: str
    cell: str
    driver: str
    journal_path: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    availability_zone: str = "nova"
    most_at_once: int = 8
