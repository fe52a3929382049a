"""Conformance tests of compute drivers: subclass DriverConformance, give it a driver and guests, run pytest.

    class TestMine(DriverConformance):
        @pytest.fixture
        def driver(self) -> Iterator[ComputeDriver]: ...      # started, and stopped afterwards

        @pytest.fixture
        def make_guest(self) -> MakeGuest: ...                # a small guest that this driver can run, for a uuid

A driver that can move guests also gives a second one, for another host:

        @pytest.fixture
        def other(self) -> Iterator[ComputeDriver]: ...

Capabilities that a driver does not name in `capabilities` are not tested. The suite creates and removes guests: a
driver may be shared by all tests of a session.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

import pytest

from conductor.conformance.actions import ActionConformance
from conductor.conformance.base import MakeGuest, NewGuest, RecordedProgress, power_state, restarted, small_guest, uuids
from conductor.conformance.faults import FaultConformance
from conductor.conformance.moves import MoveConformance
from conductor.core.compute_driver import ComputeDriver, GuestSpec, NodeReport
from conductor.core.errors import StaleToken
from conductor.core.states import PowerState

__all__ = ["DriverConformance", "MakeGuest", "NewGuest", "RecordedProgress", "small_guest"]


class DriverConformance(ActionConformance, MoveConformance, FaultConformance):
    """Tests for every driver. `console_seconds` is how long a guest may take to its first line."""

    console_seconds = 120.0

    # -- the report -----------------------------------------------------------------------------------------------

    def test_the_report_can_be_used_and_travels(self, driver: ComputeDriver) -> None:
        report = driver.report()
        assert report.node
        assert report.hypervisor_type
        assert {"VCPU", "MEMORY_MB", "DISK_GB"} <= set(report.inventory)
        for name, amount in report.inventory.items():
            assert amount.total > amount.reserved >= 0, name
            assert amount.allocation_ratio > 0, name
            assert 1 <= amount.min_unit <= amount.max_unit, name
            assert amount.step_size >= 1, name
        assert report.supported_instances
        assert all(len(mode) == 3 and all(mode) for mode in report.supported_instances)
        assert NodeReport.from_json(json.loads(json.dumps(report.to_json()))) == report

    def test_guests_do_not_change_what_the_host_has(self, driver: ComputeDriver, new_guest: NewGuest) -> None:
        before = driver.report()
        driver.spawn(new_guest(), RecordedProgress())
        after = driver.report()
        assert (after.inventory, after.traits, after.supported_instances) == (
            before.inventory,
            before.traits,
            before.supported_instances,
        )

    # -- spawn and destroy -----------------------------------------------------------------------------------------

    def test_a_spawned_guest_runs(self, driver: ComputeDriver, new_guest: NewGuest) -> None:
        guest = new_guest()
        others = uuids(driver)
        driver.spawn(guest, RecordedProgress())
        assert power_state(driver, guest) is PowerState.RUNNING
        assert uuids(driver) == others | {guest.instance_uuid}

    def test_spawning_again_changes_nothing(self, driver: ComputeDriver, new_guest: NewGuest) -> None:
        guest = new_guest()
        driver.spawn(guest, RecordedProgress())
        before = sorted(found.instance_uuid for found in driver.guests())
        driver.spawn(guest, RecordedProgress())
        assert sorted(found.instance_uuid for found in driver.guests()) == before
        assert power_state(driver, guest) is PowerState.RUNNING

    def test_a_destroyed_guest_is_gone(self, driver: ComputeDriver, new_guest: NewGuest) -> None:
        guest, other = new_guest(), new_guest()
        driver.spawn(guest, RecordedProgress())
        driver.spawn(other, RecordedProgress())
        driver.destroy(guest.instance_uuid)
        assert guest.instance_uuid not in uuids(driver)
        assert driver.console_log(guest.instance_uuid, 0) == b""
        assert power_state(driver, other) is PowerState.RUNNING

    def test_destroying_again_and_destroying_nothing_succeed(self, driver: ComputeDriver, new_guest: NewGuest) -> None:
        guest = new_guest()
        driver.destroy(guest.instance_uuid)
        driver.spawn(guest, RecordedProgress())
        driver.destroy(guest.instance_uuid)
        driver.destroy(guest.instance_uuid)
        assert guest.instance_uuid not in uuids(driver)

    def test_the_check_before_a_build_leaves_nothing(self, driver: ComputeDriver, new_guest: NewGuest) -> None:
        guest = new_guest()
        before = uuids(driver)
        driver.check_build(replace(guest, ports=(), volumes=()))
        assert uuids(driver) == before
        driver.spawn(guest, RecordedProgress())
        assert power_state(driver, guest) is PowerState.RUNNING

    def test_a_guest_can_be_built_again_under_its_uuid(self, driver: ComputeDriver, new_guest: NewGuest) -> None:
        guest = new_guest()
        driver.spawn(guest, RecordedProgress())
        driver.destroy(guest.instance_uuid)
        driver.spawn(guest, RecordedProgress())
        assert power_state(driver, guest) is PowerState.RUNNING

    def test_guests_of_several_threads(self, driver: ComputeDriver, new_guest: NewGuest) -> None:
        guests = [new_guest() for _ in range(4)]
        with ThreadPoolExecutor(len(guests)) as threads:
            list(threads.map(lambda guest: driver.spawn(guest, RecordedProgress()), guests))
            assert {guest.instance_uuid for guest in guests} <= uuids(driver)
            list(threads.map(lambda guest: driver.destroy(guest.instance_uuid), guests))
        assert not {guest.instance_uuid for guest in guests} & uuids(driver)

    def test_guests_run_on_when_the_driver_stops(self, driver: ComputeDriver, new_guest: NewGuest) -> None:
        guest = new_guest()
        driver.spawn(guest, RecordedProgress())
        again = restarted(driver)
        try:
            assert power_state(again, guest) is PowerState.RUNNING
            again.spawn(guest, RecordedProgress())
            again.destroy(guest.instance_uuid)
            assert guest.instance_uuid not in uuids(again)
            again.stop()
        finally:
            driver.start()
        assert guest.instance_uuid not in uuids(driver)

    # -- progress ---------------------------------------------------------------------------------------------

    def test_progress_is_a_sentence_and_a_share(self, driver: ComputeDriver, new_guest: NewGuest) -> None:
        reported = RecordedProgress()
        driver.spawn(new_guest(), reported)
        assert reported.calls
        for message, share in reported.calls:
            assert message.strip()
            assert share is None or 0.0 <= share <= 1.0

    def test_a_stale_spawn_leaves_nothing(self, driver: ComputeDriver, new_guest: NewGuest) -> None:
        counting = RecordedProgress()
        driver.spawn(new_guest(), counting)
        for stop_at in range(1, min(len(counting.calls), 2) + 1):
            guest, before = new_guest(), uuids(driver)
            with pytest.raises(StaleToken):
                driver.spawn(guest, RecordedProgress(stop_at))
            assert uuids(driver) == before
            assert driver.console_log(guest.instance_uuid, 0) == b""

    # -- the console ------------------------------------------------------------------------------------------

    def test_the_console_only_grows(self, driver: ComputeDriver, new_guest: NewGuest) -> None:
        guest = new_guest()
        driver.spawn(guest, RecordedProgress())
        assert driver.console_log(str(uuid4()), 0) == b""
        if not driver.supports_console_log:
            assert driver.console_log(guest.instance_uuid, 0) == b""
            return
        first = self._first_words(driver, guest)
        assert driver.console_log(guest.instance_uuid, 0).startswith(first)
        assert driver.console_log(guest.instance_uuid, 3).startswith(first[3:])
        assert driver.console_log(guest.instance_uuid, 1 << 40) == b""

    def _first_words(self, driver: ComputeDriver, guest: GuestSpec) -> bytes:
        deadline = time.monotonic() + self.console_seconds
        while time.monotonic() < deadline:
            text = driver.console_log(guest.instance_uuid, 0)
            if len(text) > 8:
                return text
            time.sleep(0.05)
        raise AssertionError(f"no word on the console within {self.console_seconds} seconds")
