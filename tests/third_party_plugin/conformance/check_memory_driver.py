"""The product's conformance suite, run against a third-party driver by its author."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import pytest

from conductor.conformance.driver import DriverConformance, MakeGuest, small_guest
from conductor.core.compute_driver import ComputeDriver
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
        return small_guest
