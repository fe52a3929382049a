"""All kinds of discrepancies, the most severe first, for the command, the API and the periodic pass."""

from __future__ import annotations

from conductor.services.operations.reconciliation import (
    allocations,
    guests,
    instances,
    locks,
    moves,
    ovn,
    ports,
    undos,
    volumes,
)
from conductor.services.operations.reconciliation.finding import DiscrepancyKind

KINDS: tuple[DiscrepancyKind, ...] = (
    *guests.KINDS,
    *instances.KINDS,
    *allocations.KINDS,
    *moves.KINDS,
    *volumes.KINDS,
    *ports.KINDS,
    *ovn.KINDS,
    *locks.KINDS,
    *undos.KINDS,
)

BY_NAME = {kind.name: kind for kind in KINDS}
