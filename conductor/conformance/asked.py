"""Conformance tests of drivers, for the driver that the command got."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from conductor.conformance.base import uuids
from conductor.conformance.driver import DriverConformance, MakeGuest
from conductor.conformance.recorder import SUBJECT, DriversUnderTest
from conductor.core.compute_driver import ComputeDriver


class TestDriver(DriverConformance):
    """Each test starts the driver anew, and fails if it leaves guests behind."""

    @pytest.fixture
    def subject(self, request: pytest.FixtureRequest) -> DriversUnderTest:
        return request.config.stash[SUBJECT]

    @pytest.fixture
    def driver(self, subject: DriversUnderTest) -> Iterator[ComputeDriver]:
        yield from _started(subject.driver)

    @pytest.fixture
    def other(self, subject: DriversUnderTest) -> Iterator[ComputeDriver]:
        yield from _started(subject.other)

    @pytest.fixture
    def make_guest(self, subject: DriversUnderTest) -> MakeGuest:
        return lambda uuid: replace(subject.guest, instance_uuid=uuid)


def _started(driver: ComputeDriver) -> Iterator[ComputeDriver]:
    try:
        driver.start()
    except SystemExit as ended:  # pytest would end all tests for it
        raise RuntimeError(f"start() raised SystemExit: {ended}") from ended
    before = uuids(driver)
    yield driver
    left = uuids(driver) - before
    driver.stop()
    assert not left, f"guests are left: {', '.join(sorted(left))}"
