"""What questions without consequences are asked with: the fleet, the plugins and the request as a real one has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from conductor.core.host_state import HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.fits_if import Fitting
from conductor.core.scheduling.select import Pipeline
from conductor.scheduler import hardware_wishes, manager, moving, request_completion
from conductor.scheduler.host_manager import Snapshot, host_manager
from conductor.scheduler.plugins_in_force import supposed

pipeline = manager.pipeline
pipeline_with = supposed


@dataclass(frozen=True)
class Now:
    """The hosts as they are, and the request with what the databases say to it."""

    table: HostTable
    spec: RequestSpec
    missing_cells: Mapping[str, str]


def now(spec: RequestSpec) -> Now:
    """What a real request would be decided on at this moment. Nothing is claimed."""
    snapshot = fleet()
    complete = completed(spec)
    return Now(moving.with_room_given_back(snapshot.table, complete.move), complete, snapshot.missing_cells)


def fleet() -> Snapshot:
    """The hosts as they are at this moment."""
    return host_manager.snapshot(counts_images=pipeline().counts_images)


def completed(spec: RequestSpec) -> RequestSpec:
    """The request with what the databases say to it, and with what follows from its flavor and image."""
    return derived(request_completion.complete(spec))


def plugins_digest() -> str:
    """The plugins that would decide now."""
    return pipeline().rules.digest


def fitting(plugins: Pipeline, num_instances: int) -> Fitting:
    """The question to variants of a request."""
    return Fitting(plugins, num_instances, derived)


def derived(spec: RequestSpec) -> RequestSpec:
    """The request with what follows from its flavor and image."""
    return hardware_wishes.derived(spec)
