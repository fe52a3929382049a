"""Every kind of findings, the loudest first: what the command, the API and the periodic pass look for."""

from __future__ import annotations

from conductor.services.reconciliation import allocations, guests, instances, locks, moves, ports, undos, volumes
from conductor.services.reconciliation.finding import Kind

KINDS: tuple[Kind, ...] = (
    *guests.KINDS,
    *instances.KINDS,
    *allocations.KINDS,
    *moves.KINDS,
    *volumes.KINDS,
    *ports.KINDS,
    *locks.KINDS,
    *undos.KINDS,
)

BY_NAME = {kind.name: kind for kind in KINDS}
