"""Values of quotas: limits and usage."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class QuotaView:
    """One limit of a project and its usage; a limit of -1 is unlimited."""

    resource: str
    limit: int
    in_use: int = 0
