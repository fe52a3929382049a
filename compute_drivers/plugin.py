"""Registers the compute drivers that ship with Novella."""

from __future__ import annotations

from collections.abc import Mapping

from compute_drivers.container.driver import ContainerDriver
from compute_drivers.fake.driver import FakeDriver
from compute_drivers.libvirt.driver import LibvirtDriver
from compute_drivers.redfish.driver import RedfishDriver
from conductor.core.compute_driver import ComputeDriver
from conductor.hookspecs import hookimpl


@hookimpl
def register_compute_drivers() -> Mapping[str, type[ComputeDriver]]:
    return {driver.name: driver for driver in (ContainerDriver, FakeDriver, LibvirtDriver, RedfishDriver)}
