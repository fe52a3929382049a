"""Conformance tests of volumes. See `driver.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from conductor.conformance.base import Base, NewGuest, RecordedProgress, lacks, power_state
from conductor.core.compute_driver import ComputeDriver, GuestSpec, VolumeConnection
from conductor.core.errors import DriverError, GuestMissing
from conductor.core.states import PowerState

DATA = b"data of a volume" * (1 << 12)


class VolumeConformance(Base):
    """Tests that attach, detach and swap volumes.

    `guests_let_go` is false where the suite's guests have no software that can release a device while they run.
    """

    guests_let_go = True

    @pytest.fixture
    def make_volume(self, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], VolumeConnection]:
        """Return a function that creates a volume that the host can open."""

        def make() -> VolumeConnection:
            uuid = str(uuid4())
            path = tmp_path_factory.mktemp("volumes") / f"{uuid}.raw"
            with path.open("wb") as file:
                file.truncate(1 << 20)
            return VolumeConnection(uuid, str(path), 1, device_name="/dev/vdf", serial=uuid[:20])

        return make

    def test_volumes_come_and_go_while_it_runs_and_while_it_is_off(
        self, driver: ComputeDriver, running: GuestSpec, make_volume: Callable[[], VolumeConnection]
    ) -> None:
        if lacks(driver, "attach_volume"):
            return
        volume, uuid = make_volume(), running.instance_uuid
        for turn in ("on", "off"):
            for _ in range(2):
                driver.attach_volume(uuid, volume)
            self._detached(turn == "on", lambda: driver.detach_volume(uuid, volume.volume_uuid))
            if turn == "on":
                assert power_state(driver, running) is PowerState.RUNNING
                driver.power_off(uuid, 0.0)
        driver.attach_volume(uuid, volume)
        driver.power_on(replace(running, volumes=(volume,)))
        assert power_state(driver, running) is PowerState.RUNNING
        self._detached(True, lambda: driver.detach_volume(uuid, volume.volume_uuid))

    def test_a_shared_volume_is_had_by_two_guests_that_run(
        self,
        driver: ComputeDriver,
        running: GuestSpec,
        new_guest: NewGuest,
        make_volume: Callable[[], VolumeConnection],
    ) -> None:
        """One guest has it from its start, the other attaches it; each detaches it without the other."""
        if lacks(driver, "attach_volume"):
            return
        shared = replace(make_volume(), is_shared=True)
        second = replace(new_guest(), volumes=(shared,))
        driver.spawn(second, RecordedProgress())
        driver.attach_volume(running.instance_uuid, shared)
        assert {power_state(driver, guest) for guest in (running, second)} == {PowerState.RUNNING}
        self._detached(True, lambda: driver.detach_volume(running.instance_uuid, shared.volume_uuid))
        driver.destroy(second.instance_uuid)
        assert power_state(driver, running) is PowerState.RUNNING

    def test_a_volume_takes_the_place_of_another_with_its_data(
        self, driver: ComputeDriver, running: GuestSpec, make_volume: Callable[[], VolumeConnection]
    ) -> None:
        if lacks(driver, "swap_volume"):
            return
        old, new, uuid = make_volume(), make_volume(), running.instance_uuid
        Path(old.path).write_bytes(DATA.ljust(1 << 20, b"\0"))
        with pytest.raises(DriverError):
            driver.swap_volume(uuid, old.volume_uuid, new, RecordedProgress())  # it has neither
        driver.attach_volume(uuid, old)
        for _ in range(2):
            driver.swap_volume(uuid, old.volume_uuid, new, RecordedProgress())
        found = Path(new.path).read_bytes()
        assert (found[: len(DATA)], len(found)) == (DATA, 1 << 20)
        assert power_state(driver, running) is PowerState.RUNNING
        driver.swap_volume(uuid, new.volume_uuid, old, RecordedProgress())  # and back
        self._detached(True, lambda: driver.detach_volume(uuid, old.volume_uuid))

    def _detached(self, is_on: bool, detach: Callable[[], None]) -> None:
        for _ in range(2):
            if is_on and not self.guests_let_go:
                with pytest.raises(DriverError, match="does not let go"):
                    detach()
            else:
                detach()

    def test_volumes_are_never_removed_with_the_guest(
        self, driver: ComputeDriver, new_guest: NewGuest, make_volume: Callable[[], VolumeConnection]
    ) -> None:
        if lacks(driver, "attach_volume"):
            return
        volume = make_volume()
        guest = replace(new_guest(), volumes=(volume,))
        driver.spawn(guest, RecordedProgress())
        driver.destroy(guest.instance_uuid)
        with open(volume.path, "rb") as file:
            assert len(file.read()) == 1 << 20

    def test_a_volume_for_a_guest_that_is_not_there(
        self, driver: ComputeDriver, make_volume: Callable[[], VolumeConnection]
    ) -> None:
        if lacks(driver, "attach_volume"):
            return
        with pytest.raises(GuestMissing):
            driver.attach_volume(str(uuid4()), make_volume())
