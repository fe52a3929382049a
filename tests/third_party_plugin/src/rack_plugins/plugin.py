"""What the package brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conductor.core.compute_driver import ComputeDriver
from conductor.core.filter import Filter
from conductor.hookspecs import hookimpl
from rack_plugins.memory_driver import MemoryDriver
from rack_plugins.rack_filter import RackFilter

novella_contract = (1, 2)


@hookimpl
def register_filters() -> Sequence[type[Filter]]:
    return (RackFilter,)


@hookimpl
def register_compute_drivers() -> Mapping[str, type[ComputeDriver]]:
    return {"memory": MemoryDriver}
