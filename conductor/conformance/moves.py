"""Conformance tests of migrations between two hosts. See `driver.py`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pytest

from conductor.conformance.base import Base, MakeGuest, RecordedProgress, lacks, offers, power_state, uuids
from conductor.core.compute_driver import ComputeDriver, GuestSpec
from conductor.core.errors import DriverError, StaleToken
from conductor.core.live_steering import DOWNTIME, POST_COPY, STEERINGS, THROTTLE
from conductor.core.states import PowerState

OFF = (PowerState.SHUTDOWN, PowerState.CRASHED)


@dataclass(frozen=True)
class HostPair:
    """A guest that runs on `source`, and its possible destination."""

    source: ComputeDriver
    destination: ComputeDriver
    guest: GuestSpec

    @property
    def uuid(self) -> str:
        return self.guest.instance_uuid

    def on(self) -> list[str]:
        """Return the hosts that list the guest."""
        return [driver.host for driver in (self.source, self.destination) if self.uuid in uuids(driver)]

    def out(self) -> dict[str, Any]:
        """Return the result of `migrate_out`, as it arrives at the destination."""
        return as_sent(self.source.migrate_out(self.guest, self.destination.host, RecordedProgress()))

    def prepare(self) -> dict[str, Any]:
        return as_sent(self.destination.prepare_live_migration(self.guest, is_block_migration=None))

    def move(self, target: dict[str, Any], reported: RecordedProgress | None = None) -> None:
        self.source.live_migrate(self.guest, target, reported or RecordedProgress(), is_block_migration=None)


def as_sent(answer: Any) -> dict[str, Any]:
    """Convert through JSON, as a message does."""
    return dict(json.loads(json.dumps(answer)))


class Steered(RecordedProgress):
    """Steers a move once, as soon as its memory moves; a late command may be refused."""

    def __init__(self, driver: ComputeDriver, uuid: str, orders: Mapping[str, int]) -> None:
        super().__init__()
        self._driver, self._uuid, self._orders = driver, uuid, dict(orders)

    def __call__(self, message: str, share: float | None = None, figures: Mapping[str, int] | None = None, /) -> None:
        super().__call__(message, share, figures)
        orders, self._orders = (self._orders, {}) if (figures or {}).get("memory_total") else ({}, self._orders)
        for kind, amount in orders.items():
            if not offers(self._driver, STEERINGS[kind].capability):
                continue
            with suppress(DriverError):
                for _ in range(2):
                    self._driver.steer_live_migration(self._uuid, kind, amount)
                if kind == POST_COPY:  # it cannot be undone
                    self._driver.abort_live_migration(self._uuid)


class MoveBase(Base):
    """A guest, and two hosts."""

    @pytest.fixture
    def other(self) -> Iterator[ComputeDriver]:
        """A second host of this driver, started; used only when the driver can migrate guests."""
        raise NotImplementedError

    @pytest.fixture
    def two(
        self, request: pytest.FixtureRequest, driver: ComputeDriver, make_guest: MakeGuest
    ) -> Iterator[HostPair | None]:
        """Yield a guest and two hosts; None for a driver without cold migration."""
        yield from self._between_two("migrate", request, driver, make_guest)

    @pytest.fixture
    def live(
        self, request: pytest.FixtureRequest, driver: ComputeDriver, make_guest: MakeGuest
    ) -> Iterator[HostPair | None]:
        """Yield a running guest and two hosts; None for a driver without live migration."""
        yield from self._between_two("live_migrate", request, driver, make_guest)

    @staticmethod
    def _between_two(
        needed: str, request: pytest.FixtureRequest, driver: ComputeDriver, make_guest: MakeGuest
    ) -> Iterator[HostPair | None]:
        if lacks(driver, needed):
            yield None
            return
        found = HostPair(driver, request.getfixturevalue("other"), make_guest(str(uuid4())))
        driver.spawn(found.guest, RecordedProgress())
        yield found
        for host in (found.destination, found.source):
            host.destroy(found.uuid)
            if "migrate" in driver.capabilities:
                host.confirm_migration(found.uuid)


class ColdMoves(MoveBase):
    """Cold migration: out, in, confirmed and reverted."""

    @pytest.mark.parametrize("is_running", [True, False])
    def test_moved_and_confirmed(self, two: HostPair | None, is_running: bool) -> None:
        if two is None:
            return
        disks = two.out()
        assert two.out() == disks
        assert two.on() == []
        assert two.uuid in two.source.kept_guests(), "what is kept for a revert is listed, or it cannot be found"
        larger = replace(two.guest, flavor=replace(two.guest.flavor, memory_mb=two.guest.flavor.memory_mb + 32))
        for _ in range(2):
            two.destination.migrate_in(larger, disks, RecordedProgress(), is_running=is_running)
            assert two.on() == [two.destination.host]
            assert (power_state(two.destination, larger) is PowerState.RUNNING) is is_running
        for _ in range(2):
            two.source.confirm_migration(two.uuid)
        assert two.on() == [two.destination.host]
        assert two.uuid not in two.source.kept_guests()

    def test_moved_and_reverted(self, two: HostPair | None) -> None:
        if two is None:
            return
        disks = two.out()
        two.destination.migrate_in(two.guest, disks, RecordedProgress(), is_running=True)
        two.destination.destroy(two.uuid)
        for _ in range(2):
            two.source.revert_migration(two.guest, is_running=True)
            assert two.on() == [two.source.host]
            assert two.uuid not in two.source.kept_guests()
            assert power_state(two.source, two.guest) is PowerState.RUNNING

    def test_a_guest_that_never_went_out_is_left_as_it_is(self, two: HostPair | None) -> None:
        if two is None:
            return
        two.source.revert_migration(two.guest, is_running=False)
        assert power_state(two.source, two.guest) is PowerState.RUNNING

    def test_a_stale_move_leaves_nothing_at_the_destination(self, two: HostPair | None) -> None:
        if two is None:
            return
        disks = two.out()
        with pytest.raises(StaleToken):
            two.destination.migrate_in(two.guest, disks, RecordedProgress(stop_at=1), is_running=True)
        assert two.on() == []
        two.source.revert_migration(two.guest, is_running=False)
        assert power_state(two.source, two.guest) in OFF

    def test_resized_on_its_own_host(self, two: HostPair | None) -> None:
        if two is None:
            return
        larger = replace(two.guest, flavor=replace(two.guest.flavor, vcpus=two.guest.flavor.vcpus + 1))
        disks = two.out()
        two.source.migrate_in(larger, disks, RecordedProgress(), is_running=True)
        assert two.on() == [two.source.host]
        two.source.destroy(two.uuid)  # that does not touch the retained disks
        two.source.revert_migration(two.guest, is_running=True)
        assert power_state(two.source, two.guest) is PowerState.RUNNING

    def test_disks_that_are_gone_are_a_failure_and_leave_nothing(self, two: HostPair | None) -> None:
        if two is None:
            return
        disks = two.out()
        two.source.confirm_migration(two.uuid)
        with pytest.raises(DriverError):
            two.destination.migrate_in(two.guest, disks, RecordedProgress(), is_running=True)
        assert two.on() == []


class LiveMoves(MoveBase):
    """Live migration: prepared, moved, finished, cancelled, aborted, forced."""

    def test_moved_while_it_runs(self, live: HostPair | None) -> None:
        if live is None:
            return
        target = live.prepare()
        assert live.prepare() == target
        assert live.on() == [live.source.host]
        reported = RecordedProgress()
        for _ in range(2):
            live.move(target, reported)
            assert live.on() == [live.destination.host]
        for _ in range(2):
            live.destination.finish_live_migration(live.guest)
        live.destination.cancel_live_migration(live.uuid)
        assert live.on() == [live.destination.host]
        assert power_state(live.destination, live.guest) is PowerState.RUNNING
        assert reported.figures
        assert all({"memory_total", "memory_remaining"} <= set(figures) for figures in reported.figures)

    def test_a_move_that_was_prepared_can_be_cancelled(self, live: HostPair | None) -> None:
        if live is None:
            return
        target = live.prepare()
        for _ in range(2):
            live.destination.cancel_live_migration(live.uuid)
        with pytest.raises(DriverError):
            live.move(target)
        assert live.on() == [live.source.host]
        assert power_state(live.source, live.guest) is PowerState.RUNNING
        live.move(live.prepare())
        assert live.on() == [live.destination.host]

    def test_a_stale_live_move_leaves_the_guest_where_it_is(self, live: HostPair | None) -> None:
        if live is None:
            return
        target = live.prepare()
        with pytest.raises(StaleToken):
            live.move(target, RecordedProgress(stop_at=1))
        assert live.on() == [live.source.host]
        assert power_state(live.source, live.guest) is PowerState.RUNNING

    def test_abort_and_force_without_a_move_do_nothing(self, live: HostPair | None) -> None:
        if live is None:
            return
        live.source.abort_live_migration(live.uuid)
        live.source.force_live_migration(live.uuid)
        for steering in STEERINGS.values():
            if offers(live.source, steering.capability):
                with pytest.raises(DriverError):
                    live.source.steer_live_migration(live.uuid, steering.kind, steering.least)
        assert live.on() == [live.source.host]
        assert power_state(live.source, live.guest) is PowerState.RUNNING

    def test_back_and_forth_and_steered_on_its_way(self, live: HostPair | None) -> None:
        if live is None:
            return
        back = HostPair(live.destination, live.source, live.guest)
        for way, orders in ((live, {}), (back, {DOWNTIME: 2000, THROTTLE: 40}), (live, {POST_COPY: 0})):
            way.move(way.prepare(), Steered(way.source, way.uuid, orders))
            way.destination.finish_live_migration(live.guest)
            assert way.on() == [way.destination.host]

    def test_what_has_just_arrived_can_be_destroyed(self, live: HostPair | None) -> None:
        if live is None:
            return
        live.move(live.prepare())
        live.destination.destroy(live.uuid)
        assert live.on() == []

    def test_a_moved_guest_is_reported_once(self, live: HostPair | None) -> None:
        """Several polls in a row: between two equal polls at the source, the one at the destination differs."""
        if live is None:
            return
        target, is_over = live.prepare(), threading.Event()

        def move() -> None:
            live.move(target)
            is_over.set()

        mover = threading.Thread(target=move)
        mover.start()
        looks = 0
        while not is_over.is_set() or looks == 0:
            before, there = live.uuid in uuids(live.source), live.uuid in uuids(live.destination)
            after = live.uuid in uuids(live.source)
            if before == after:
                assert there is not before
                looks += 1
        mover.join()
        assert live.on() == [live.destination.host]


class SharedDisks(MoveBase):
    """Evacuation with shared disks: the dead host's guest is taken over, and handed back."""

    @pytest.fixture
    def left(
        self, request: pytest.FixtureRequest, driver: ComputeDriver, make_guest: MakeGuest
    ) -> Iterator[HostPair | None]:
        """Yield a guest whose host cannot run it any more; None for a driver whose hosts share no disks."""
        for two in self._between_two("evacuate", request, driver, make_guest):
            if two is not None:
                two.source.power_off(two.uuid, 0.0)
            yield two

    def test_the_guest_of_a_dead_host_is_taken_over_and_outlives_what_is_left_there(
        self, left: HostPair | None
    ) -> None:
        if left is None:
            return
        for _ in range(2):
            left.destination.take_over(left.guest, left.source.host, RecordedProgress())
        left.source.destroy(left.uuid)  # as at its return
        assert left.on() == [left.destination.host]
        left.destination.reboot(left.guest, is_hard=True, timeout_seconds=0.0)
        assert power_state(left.destination, left.guest) is PowerState.RUNNING

    def test_what_was_taken_over_can_be_handed_back(self, left: HostPair | None) -> None:
        if left is None:
            return
        left.destination.take_over(left.guest, left.source.host, RecordedProgress())
        for _ in range(2):
            left.destination.hand_back(left.uuid, left.source.host)
            assert left.on() == [left.source.host]
        self._runs_at_its_source(left)

    def test_a_guest_that_is_not_wanted_there_any_more_keeps_its_disks(self, left: HostPair | None) -> None:
        if left is None:
            return
        with pytest.raises(StaleToken):
            left.destination.take_over(left.guest, left.source.host, RecordedProgress(stop_at=1))
        assert left.on() == [left.source.host]
        left.destination.destroy(left.uuid)
        self._runs_at_its_source(left)

    def test_disks_that_are_not_there_are_a_failure_and_leave_nothing(self, left: HostPair | None) -> None:
        if left is None:
            return
        nowhere = replace(left.guest, instance_uuid=str(uuid4()))
        with pytest.raises(DriverError):
            left.destination.take_over(nowhere, left.source.host, RecordedProgress())
        assert nowhere.instance_uuid not in uuids(left.destination)

    @staticmethod
    def _runs_at_its_source(left: HostPair) -> None:
        left.source.power_on(left.guest)
        assert power_state(left.source, left.guest) is PowerState.RUNNING


class MoveConformance(ColdMoves, LiveMoves, SharedDisks):
    """All migration tests."""
