"""Garbage collection while a process starts, and in long-lived processes."""

from __future__ import annotations

import gc

# Python's default collects after 700 new objects, and every hundredth time through most of the heap. Most objects of a
# request
# or a step are freed by reference counts when it ends: with these thresholds a build takes a twentieth less CPU time.
THRESHOLDS = (10_000, 10, 20)


def rest() -> None:
    """Turn garbage collection off while modules are loaded: they stay, so a scan finds little and costs much."""
    gc.disable()


def resume() -> None:
    """Turn it on again, exempting the objects that exist now."""
    gc.freeze()
    gc.enable()


def settle() -> None:
    """Exempt the objects that exist now from garbage collection; called once a process has started."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
