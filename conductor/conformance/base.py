"""Common parts of the conformance suite: fixtures, and helpers for all drivers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from uuid import uuid4

import pytest

from conductor.core.compute_driver import ComputeDriver, GuestSpec
from conductor.core.errors import StaleToken
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.core.states import PowerState

# Capabilities of the current test: supported ones, and ones that the driver lacks.
ASKED: set[str] = set()
NOT_ASKED: set[str] = set()

MakeGuest = Callable[[str], GuestSpec]
NewGuest = Callable[[], GuestSpec]


class RecordedProgress:
    """A `progress` that records; `stop_at` is the call at which it raises, as a newer command would."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.calls: list[tuple[str, float | None]] = []
        self.figures: list[Mapping[str, int]] = []
        self.stop_at = stop_at

    def __call__(self, message: str, share: float | None = None, figures: Mapping[str, int] | None = None, /) -> None:
        self.calls.append((message, share))
        if figures is not None:
            self.figures.append(figures)
        if self.stop_at is not None and len(self.calls) >= self.stop_at:
            raise StaleToken()


class Base:
    """Fixtures to override, and one that creates guests and removes them afterwards."""

    @pytest.fixture
    def driver(self) -> Iterator[ComputeDriver]:
        raise NotImplementedError

    @pytest.fixture
    def make_guest(self) -> MakeGuest:
        raise NotImplementedError

    @pytest.fixture
    def new_guest(self, driver: ComputeDriver, make_guest: MakeGuest) -> Iterator[NewGuest]:
        """Return a function that creates specs of new guests, and destroy the guests afterwards."""
        made: list[str] = []

        def make() -> GuestSpec:
            made.append(str(uuid4()))
            return make_guest(made[-1])

        yield make
        for uuid in made:
            driver.destroy(uuid)

    @pytest.fixture
    def running(self, driver: ComputeDriver, new_guest: NewGuest) -> GuestSpec:
        """A guest that was spawned."""
        guest = new_guest()
        driver.spawn(guest, RecordedProgress())
        return guest


def small_guest(instance_uuid: str) -> GuestSpec:
    """Return a guest of one vCPU, for drivers that ignore the image."""
    flavor = FlavorSpec("1", "small", 1, 128, root_gb=1)
    return GuestSpec(instance_uuid, "web-1", "web-1", "shop", flavor, ImageSpec("image"))


def lacks(driver: ComputeDriver, capability: str) -> bool:
    """Whether the driver lacks it: the test then has nothing to check, and the report says so."""
    if capability in driver.capabilities:
        ASKED.add(capability)
        return False
    NOT_ASKED.add(capability)
    return True


def offers(driver: ComputeDriver, capability: str) -> bool:
    """Whether the driver supports the capability of a part of the test; the rest of the test runs in any case."""
    if capability in driver.capabilities:
        ASKED.add(capability)
    return capability in driver.capabilities


def restarted(driver: ComputeDriver) -> ComputeDriver:
    """Return the same host as another process would find it; stop it, and start `driver` again, when done."""
    driver.stop()
    again = type(driver)(driver.host, driver.options, driver.open_image)
    again.start()
    return again


def uuids(driver: ComputeDriver) -> set[str]:
    return {guest.instance_uuid for guest in driver.guests()}


def power_state(driver: ComputeDriver, guest: GuestSpec) -> PowerState | None:
    """Return the guest's power state; None when the driver has no such guest."""
    states = {found.instance_uuid: found.power_state for found in driver.guests()}
    return states.get(guest.instance_uuid)
