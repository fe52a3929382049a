"""Cells that operators closed to new servers: their hosts are no part of a snapshot, and a decision says so."""

from __future__ import annotations

from dataclasses import dataclass

NAME = "closed_cells"  # of the funnel's first bar, where there is one


@dataclass(frozen=True, slots=True)
class ClosedCell:
    """How many hosts it has, the first of them by name, and why it is closed."""

    name: str
    reason: str
    num_hosts: int
    hosts: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """For the person who asked: without the operator's words."""
        return f"Cell {self.name} is closed to new servers: its hosts were not considered."
