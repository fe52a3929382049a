"""The product's conformance suite, as an author runs it against a driver of his own."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import pytest

from conductor.conformance.driver import DriverConformance, MakeGuest
from conductor.core.compute_driver import ComputeDriver, GuestSpec
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.plugins import registry


class TestMemoryDriver(DriverConformance):
    @pytest.fixture
    def driver(self) -> Iterator[ComputeDriver]:
        driver = registry().drivers["memory"]("host-1", {"rack": "r1"}, lambda image_id: BytesIO())
        driver.start()
        yield driver
        driver.stop()

    @pytest.fixture
    def make_guest(self) -> MakeGuest:
        flavor = FlavorSpec("1", "small", 1, 128)
        return lambda uuid: GuestSpec(uuid, "web", "web", "shop", flavor, ImageSpec("image"))
