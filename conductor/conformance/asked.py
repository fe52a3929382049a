"""The law for drivers, asked of the one that the command was given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from conductor.conformance.base import uuids
from conductor.conformance.driver import DriverConformance, MakeGuest
from conductor.conformance.recorder import SUBJECT, Subject
from conductor.core.compute_driver import ComputeDriver


class TestDriver(DriverConformance):
    """Each law has the driver started anew; what a law leaves behind breaks it."""

    @pytest.fixture
    def subject(self, request: pytest.FixtureRequest) -> Subject:
        return request.config.stash[SUBJECT]

    @pytest.fixture
    def driver(self, subject: Subject) -> Iterator[ComputeDriver]:
        yield from _started(subject.driver)

    @pytest.fixture
    def other(self, subject: Subject) -> Iterator[ComputeDriver]:
        yield from _started(subject.other)

    @pytest.fixture
    def make_guest(self, subject: Subject) -> MakeGuest:
        return lambda uuid: replace(subject.guest, instance_uuid=uuid)


def _started(driver: ComputeDriver) -> Iterator[ComputeDriver]:
    try:
        driver.start()
    except SystemExit as ended:  # pytest would end all laws for it
        raise RuntimeError(f"start() raised SystemExit: {ended}") from ended
    before = uuids(driver)
    yield driver
    left = uuids(driver) - before
    driver.stop()
    assert not left, f"guests are left: {', '.join(sorted(left))}"
