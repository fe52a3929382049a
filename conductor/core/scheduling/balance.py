"""Balance of a fleet, as one number from 0 to 100."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean, pstdev

from conductor.core.host_state import HostState

WIDEST = 0.5  # of shares between 0 and 1: half of the hosts empty, half of them full
MEASURES = ("MEMORY_MB", "VCPU")


def balance(states: Iterable[HostState], placed: Mapping[str, int], resources: Mapping[str, float]) -> float | None:
    """Return the balance of a fleet.

    Args:
        placed: The number of additional guests, of `resources` each, by host name.

    Returns:
        100 if every host in service is as full as the others, 0 if half of them are full and half empty. None if fewer
            than two hosts are in service.
    """
    serving = [state for state in states if state.is_up and not (state.is_disabled or state.is_cell_closed)]
    if len(serving) < 2:
        return None
    spread = [pstdev(_share(state, name, placed, resources) for state in serving) for name in MEASURES]
    return 100 * (1 - min(1.0, fmean(spread) / WIDEST))


def _share(state: HostState, name: str, placed: Mapping[str, int], resources: Mapping[str, float]) -> float:
    more = placed.get(state.host, 0) * resources.get(name, 0)
    if name == "MEMORY_MB":
        free, used = state.free_memory_mb, state.memory_mb_used
    else:
        free, used = state.free_vcpus, state.vcpus_used
    whole = free + used
    return min(1.0, max(0.0, (used + more) / whole)) if whole > 0 else 0.0
