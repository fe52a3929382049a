"""Inputs of hypothetical decisions: the fleet, the plugins and the request as a real decision gets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from conductor.core.host_state import HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.fits_if import Fitting
from conductor.core.scheduling.select import Pipeline
from conductor.scheduler import claims, hardware_requests, manager, request_specs
from conductor.scheduler.active_plugins import hypothetical
from conductor.scheduler.host_manager import FleetSnapshot, host_manager

pipeline = manager.pipeline
pipeline_with = hypothetical


@dataclass(frozen=True)
class CurrentHosts:
    """The hosts as they are, and the request completed from the databases."""

    table: HostTable
    spec: RequestSpec
    missing_cells: Mapping[str, str]


def now(spec: RequestSpec) -> CurrentHosts:
    """Return the inputs of a real decision at this moment. Nothing is claimed."""
    snapshot = fleet()
    complete = completed(spec)
    return CurrentHosts(claims.with_room_given_back(snapshot.table, complete.move), complete, snapshot.missing_cells)


def fleet() -> FleetSnapshot:
    """Return the hosts as they are now."""
    return host_manager.snapshot(counts_images=pipeline().counts_images)


def completed(spec: RequestSpec) -> RequestSpec:
    """Return the request completed from the databases, with all that follows from its flavor and image."""
    return derived(request_specs.complete(spec))


def plugins_digest() -> str:
    """Return the digest of the plugins in force."""
    return pipeline().rules.digest


def fitting(plugins: Pipeline, num_instances: int) -> Fitting:
    """Return the condition for variants of a request."""
    return Fitting(plugins, num_instances, derived)


def derived(spec: RequestSpec) -> RequestSpec:
    """Return the request with all that follows from its flavor and image."""
    return hardware_requests.derived(spec)
