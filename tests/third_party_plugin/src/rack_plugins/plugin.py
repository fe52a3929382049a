"""The plugins of the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conductor.core.compute_driver import ComputeDriver
from conductor.core.extensions import FlowObserver, ImageConverter, LaunchForm, Panel, Prefilter, QuotaSource
from conductor.core.filter import Filter
from conductor.hookspecs import hookimpl
from rack_plugins.extensions import RackDisks, RackLimits, RackLog, RackPanel, RackTrait, WhichRack
from rack_plugins.memory_driver import MemoryDriver
from rack_plugins.rack_filter import RackFilter

novella_contract = 3


@hookimpl
def register_filters() -> Sequence[type[Filter]]:
    return (RackFilter,)


@hookimpl
def register_compute_drivers() -> Mapping[str, type[ComputeDriver]]:
    return {"memory": MemoryDriver}


@hookimpl
def register_prefilters() -> Sequence[type[Prefilter]]:
    return (RackTrait,)


@hookimpl
def register_quota_sources() -> Sequence[type[QuotaSource]]:
    return (RackLimits,)


@hookimpl
def register_launch_forms() -> Sequence[type[LaunchForm]]:
    return (WhichRack,)


@hookimpl
def register_panels() -> Sequence[type[Panel]]:
    return (RackPanel,)


@hookimpl
def register_image_converters() -> Sequence[type[ImageConverter]]:
    return (RackDisks,)


@hookimpl
def register_flow_observers() -> Sequence[type[FlowObserver]]:
    return (RackLog,)
