"""Moves of simulated guests, killed anywhere; and other cases that need a simulated hypervisor."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from compute_drivers.fake import live_migration, state
from compute_drivers.fake.driver import FakeDriver
from compute_drivers.fake.state import GuestRecord
from conductor.compute.handlers import CommandContext, carry_out
from conductor.conformance.base import RecordedProgress, power_state, uuids
from conductor.core.compute_driver import HAS_LEFT, GuestSpec
from conductor.core.errors import DriverError, GuestMissing, MigrationAborted
from conductor.core.states import PowerState
from conductor.rpc.messages import LiveMigrate, RebuildInstance
from tests.fixtures.simulated_guests import IMAGE, PORT, started
from tests.guests import guest_of
from tests.waiting import WAIT_SECONDS, assert_stays, wait_until

# As many writes as a live migration makes: both files, the mark, both files again.
WRITES_OF_A_SWITCH = 5
WRITES_OF_A_FINISH = 2


@pytest.fixture
def source(tmp_path: Path) -> FakeDriver:
    return started("sim-1", state_file=str(tmp_path / "one.json"))


@pytest.fixture
def destination(tmp_path: Path) -> FakeDriver:
    return started("sim-2", state_file=str(tmp_path / "two.json"))


@pytest.fixture
def guest(source: FakeDriver) -> GuestSpec:
    guest = guest_of(str(uuid4()), IMAGE, ports=(PORT,))
    source.spawn(guest, RecordedProgress())
    return guest


def note(driver: FakeDriver, guest: GuestSpec) -> GuestRecord:
    return driver.node.read_state().guests[guest.instance_uuid]


def killed_at(write: int, work: Callable[[], object]) -> bool:
    """Do `work` in a process that is killed before its write of that number; False when it made no such write."""
    child = os.fork()
    if child == 0:
        _kill_before(write)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL


def _kill_before(write: int) -> None:
    made = 0

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            nonlocal made
            if made == write:
                os.kill(os.getpid(), signal.SIGKILL)
            made += 1
            return real(*args)

        return call

    state.StateFile.save = counting(state.StateFile.save)  # type: ignore[method-assign]
    live_migration.create_mark = counting(live_migration.create_mark)


@pytest.mark.parametrize("write", range(WRITES_OF_A_SWITCH))
@pytest.mark.parametrize("then", ["again", "cancel"])
def test_a_live_migration_killed_at_any_place_leaves_one_guest(
    source: FakeDriver, destination: FakeDriver, guest: GuestSpec, write: int, then: str
) -> None:
    life, uuid = note(source, guest).life, guest.instance_uuid
    target = destination.prepare_live_migration(guest, is_block_migration=None)

    def move() -> None:
        source.live_migrate(guest, target, RecordedProgress(), is_block_migration=None)

    assert killed_at(write, move)
    has_moved = write > WRITES_OF_A_SWITCH - 3
    assert (uuid in uuids(source), uuid in uuids(destination)) == (not has_moved, has_moved)
    if then == "again":
        move()
        destination.finish_live_migration(guest)
    else:
        destination.cancel_live_migration(uuid)
    has_moved = has_moved or then == "again"
    assert (uuid in uuids(source), uuid in uuids(destination)) == (not has_moved, has_moved)
    where, other = (destination, source) if has_moved else (source, destination)
    assert note(where, guest).life == life
    assert power_state(where, guest) is PowerState.RUNNING
    # And on it goes: back to where it was, or there after all.
    where.live_migrate(
        guest, other.prepare_live_migration(guest, is_block_migration=None), RecordedProgress(), is_block_migration=None
    )
    other.finish_live_migration(guest)
    assert (uuid in uuids(where), uuid in uuids(other)) == (False, True)
    assert note(other, guest).life == life


def test_a_switch_makes_no_other_writes(source: FakeDriver, destination: FakeDriver, guest: GuestSpec) -> None:
    target = destination.prepare_live_migration(guest, is_block_migration=None)
    assert not killed_at(
        WRITES_OF_A_SWITCH, lambda: source.live_migrate(guest, target, RecordedProgress(), is_block_migration=None)
    )
    assert guest.instance_uuid in uuids(destination)


@pytest.mark.parametrize("write", range(WRITES_OF_A_FINISH))
@pytest.mark.parametrize("then", ["finish", "destroy"])
def test_a_finish_killed_at_any_place_restores_no_guest_at_the_source(
    source: FakeDriver, destination: FakeDriver, guest: GuestSpec, write: int, then: str
) -> None:
    uuid = guest.instance_uuid
    target = destination.prepare_live_migration(guest, is_block_migration=None)
    assert killed_at(3, lambda: source.live_migrate(guest, target, RecordedProgress(), is_block_migration=None))
    assert killed_at(write, lambda: destination.finish_live_migration(guest))
    assert (uuid in uuids(source), uuid in uuids(destination)) == (False, True)
    destination.finish_live_migration(guest) if then == "finish" else destination.destroy(uuid)
    assert (uuid in uuids(source), uuid in uuids(destination)) == (False, then == "finish")
    assert list(Path(target["state_file"]).parent.glob("*.here")) == []


@pytest.mark.parametrize("verb", ["migrate_out", "migrate_in", "revert_migration", "confirm_migration"])
def test_a_cold_migration_killed_at_any_place_continues(
    source: FakeDriver, destination: FakeDriver, guest: GuestSpec, verb: str
) -> None:
    disk, uuid = note(source, guest).disk, guest.instance_uuid

    def do(what: str) -> None:
        if what == verb:
            assert killed_at(0, lambda: steps[what]())
        steps[what]()

    steps: dict[str, Callable[[], object]] = {
        "migrate_out": lambda: source.migrate_out(guest, "sim-2", RecordedProgress()),
        "migrate_in": lambda: destination.migrate_in(
            guest, source.migrate_out(guest, "sim-2", RecordedProgress()), RecordedProgress(), is_running=True
        ),
        "confirm_migration": lambda: source.confirm_migration(uuid),
        "revert_migration": lambda: source.revert_migration(guest, is_running=True),
    }
    for what in ("migrate_out", "migrate_in"):
        do(what)
    assert (uuid in uuids(source), uuid in uuids(destination)) == (False, True)
    is_back = verb == "revert_migration"
    if is_back:
        destination.destroy(uuid)
    do(verb if is_back else "confirm_migration")
    where = source if is_back else destination
    assert (uuid in uuids(source), uuid in uuids(destination)) == (is_back, not is_back)
    assert note(where, guest).disk == disk


def test_actions_keep_or_change_the_identity_of_the_guest(source: FakeDriver, guest: GuestSpec) -> None:
    uuid, first = guest.instance_uuid, note(source, guest)
    source.pause(uuid)
    source.unpause(uuid)
    source.suspend(uuid)
    source.resume(guest)
    source.reboot(guest, is_hard=False, timeout_seconds=0.0)
    same = note(source, guest)
    assert (same.life, same.disk, same.boots) == (first.life, first.disk, 2)
    source.reboot(guest, is_hard=True, timeout_seconds=0.0)
    source.rescue(guest, "correct horse", RecordedProgress())
    source.unrescue(guest, is_running=True)
    booted = note(source, guest)
    assert booted.life not in (first.life, "")
    assert (booted.disk, booted.boots) == (first.disk, 5)
    source.rebuild(guest, RecordedProgress(), is_running=True)
    assert note(source, guest).disk != first.disk


def test_a_password_is_not_written_down(source: FakeDriver, guest: GuestSpec, tmp_path: Path) -> None:
    source.set_admin_password(guest.instance_uuid, "correct horse")
    source.rescue(guest, "correct horse", RecordedProgress())
    assert note(source, guest).has_admin_password
    assert "correct horse" not in (tmp_path / "one.json").read_text()


def test_a_live_move_can_be_aborted_until_the_switch_and_be_forced(tmp_path: Path, destination: FakeDriver) -> None:
    source = started("sim-1", state_file=str(tmp_path / "one.json"), live_migration_seconds=900.0)
    guest = guest_of(str(uuid4()), IMAGE)
    source.spawn(guest, RecordedProgress())
    for finish, outcome in ((source.abort_live_migration, MigrationAborted), (source.force_live_migration, None)):
        target = destination.prepare_live_migration(guest, is_block_migration=None)
        raised: list[BaseException] = []
        mover = threading.Thread(target=_moving, args=(source, guest, target, raised))
        mover.start()
        wait_until("it moves", lambda: guest.instance_uuid in source.live_migration.jobs)
        finish(guest.instance_uuid)
        mover.join(WAIT_SECONDS)
        assert [type(error) for error in raised] == ([outcome] if outcome else [])
        assert (guest.instance_uuid in uuids(destination)) is (outcome is None)
        assert (guest.instance_uuid in uuids(source)) is (outcome is not None)
    source.abort_live_migration(guest.instance_uuid)
    destination.finish_live_migration(guest)


class Ordering(RecordedProgress):
    """Steers the migration at the first progress, and then checks whether it could still be aborted."""

    def __init__(self, source: FakeDriver, uuid: str, orders: dict[str, int]) -> None:
        super().__init__()
        self._source, self._uuid, self._orders = source, uuid, orders
        self.why_no_abort = ""

    def __call__(self, message: str, share: float | None = None, figures: Any = None, /) -> None:
        super().__call__(message, share, figures)
        orders, self._orders = self._orders, {}
        for kind, amount in orders.items():
            self._source.steer_live_migration(self._uuid, kind, amount)
        if "post-copy" in orders:
            with pytest.raises(DriverError) as refused:
                self._source.abort_live_migration(self._uuid)
            self.why_no_abort = str(refused.value)


@pytest.mark.parametrize(
    ("orders", "expected_figures"),
    [
        ({"downtime": 60_000}, {"downtime_limit_ms": 60_000, "memory_remaining": 0}),
        ({"throttle": 99}, {"throttle_percent": 99, "memory_remaining": 0}),
        ({"throttle": 99, "post-copy": 0}, {"throttle_percent": 99, "is_post_copy": 1}),
    ],
    ids=lambda value: "-".join(value),
)
def test_a_move_of_a_minute_is_steered_to_its_end(
    tmp_path: Path, destination: FakeDriver, orders: dict[str, int], expected_figures: dict[str, int]
) -> None:
    """A downtime of a minute switches at once, a throttled guest is a hundred times as fast."""
    source = started("sim-1", state_file=str(tmp_path / "one.json"), live_migration_seconds=60.0)
    guest = guest_of(str(uuid4()), IMAGE)
    source.spawn(guest, RecordedProgress())
    target = destination.prepare_live_migration(guest, is_block_migration=None)
    ordering = Ordering(source, guest.instance_uuid, orders)
    source.live_migrate(guest, target, ordering, is_block_migration=None)
    destination.finish_live_migration(guest)
    assert uuids(destination) == {guest.instance_uuid}
    assert expected_figures.items() <= ordering.figures[-1].items()
    assert ("can no longer be aborted" in ordering.why_no_abort) is ("post-copy" in orders)
    assert ("fetching memory at the destination" in dict(ordering.calls)) is ("post-copy" in orders)
    with pytest.raises(DriverError, match="No live migration of the server is running on this host"):
        source.steer_live_migration(guest.instance_uuid, "throttle", 40)


def _moving(source: FakeDriver, guest: GuestSpec, target: Any, raised: list[BaseException]) -> None:
    try:
        source.live_migrate(guest, target, RecordedProgress(), is_block_migration=None)
    except DriverError as error:
        raised.append(error)


def test_guests_shut_themselves_down_and_crash_on_command(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    driver = started(faults_file=str(file))
    web, db = (guest_of(str(uuid4()), IMAGE, name=name) for name in ("web-1", "db-1"))
    for guest in (web, db):
        driver.spawn(guest, RecordedProgress())
    file.write_text(json.dumps({"shutdown": {"fail_times": 1, "match_name": "^web-"}, "crash": {"fail_times": 0}}))
    for _ in range(2):
        assert power_state(driver, web) is PowerState.SHUTDOWN
        assert power_state(driver, db) is PowerState.RUNNING
    driver.power_on(web)
    assert power_state(driver, web) is PowerState.RUNNING  # once was enough
    file.write_text(json.dumps({"crash": {"fail_times": 9}}))
    assert power_state(driver, web) is power_state(driver, db) is PowerState.CRASHED


def test_a_call_can_fail_after_its_effect(tmp_path: Path) -> None:
    driver = started(faults={"pause": {"fail_times": 1, "after_effect": True, "message": "the line is dead"}})
    guest = guest_of(str(uuid4()), IMAGE)
    driver.spawn(guest, RecordedProgress())
    with pytest.raises(DriverError, match="the line is dead"):
        driver.pause(guest.instance_uuid)
    assert power_state(driver, guest) is PowerState.PAUSED
    driver.pause(guest.instance_uuid)


def test_a_call_hangs_until_the_rule_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    file.write_text(json.dumps({"pause": {"hangs": True}}))
    driver, guest = started(faults_file=str(file)), guest_of(str(uuid4()), IMAGE)
    driver.spawn(guest, RecordedProgress())
    caller = threading.Thread(target=driver.pause, args=(guest.instance_uuid,))
    caller.start()
    assert_stays("the call hangs", caller.is_alive)
    assert power_state(driver, guest) is PowerState.RUNNING
    file.unlink()
    caller.join(WAIT_SECONDS)
    assert power_state(driver, guest) is PowerState.PAUSED


def test_a_missing_guest_can_be_simulated(source: FakeDriver, guest: GuestSpec) -> None:
    driver = started(
        state_file=str(source.node.state_file.path), faults={"power_off": {"fail_times": 1, "error": "GuestMissing"}}
    )
    with pytest.raises(GuestMissing):
        driver.power_off(guest.instance_uuid, 0.0)
    assert power_state(source, guest) is PowerState.RUNNING


def test_a_target_that_is_not_on_this_machine_is_a_failure(source: FakeDriver, guest: GuestSpec) -> None:
    for target in ({}, {"state_file": "relative.json"}, {"state_file": "/nowhere/at/all.json"}):
        with pytest.raises(DriverError, match="not on this machine"):
            source.live_migrate(guest, target, RecordedProgress(), is_block_migration=None)
        with pytest.raises(DriverError, match="not on this machine"):
            source.migrate_in(guest, target, RecordedProgress(), is_running=True)
    assert power_state(source, guest) is PowerState.RUNNING


@pytest.mark.parametrize("has_left", [True, False], ids=["after the switch", "before it"])
def test_a_failure_after_the_switch_is_not_reported_as_one_of_a_guest_that_is_still_here(
    has_left: bool, tmp_path: Path
) -> None:
    faults = {"live_migrate": {"fail_times": 1, "after_effect": has_left}}
    here = started("sim-1", state_file=str(tmp_path / "one.json"), faults=faults)
    there = started("sim-2", state_file=str(tmp_path / "two.json"))
    guest = guest_of(str(uuid4()), IMAGE, ports=(PORT,))
    here.spawn(guest, RecordedProgress())
    command = LiveMigrate(
        step_key="key", fencing_token=1, run_uuid="run", cell="cell1", host="sim-1", instance_uuid=guest.instance_uuid,
        guest=guest.to_json(), target=there.prepare_live_migration(guest, is_block_migration=None),
        is_block_migration=None,
    )  # fmt: skip
    driver_context = CommandContext(here, store_image=lambda *_: None, progress=RecordedProgress())
    if has_left:
        assert carry_out(driver_context, command) == {HAS_LEFT: True}
    else:
        with pytest.raises(DriverError):
            carry_out(driver_context, command)
    assert [driver.host for driver in (here, there) if guest.instance_uuid in uuids(driver)] == [
        "sim-2" if has_left else "sim-1"
    ]


@pytest.mark.parametrize(("is_running", "state"), [(True, PowerState.RUNNING), (False, PowerState.SHUTDOWN)])
def test_a_lost_guest_can_be_rebuilt(is_running: bool, state: PowerState, source: FakeDriver, guest: GuestSpec) -> None:
    source.destroy(guest.instance_uuid)
    command = RebuildInstance(
        step_key="run:do:0:1:1",
        fencing_token=1,
        run_uuid=str(uuid4()),
        cell="cell1",
        host=source.host,
        instance_uuid=guest.instance_uuid,
        guest=guest.to_json(),
        is_running=is_running,
    )
    carry_out(CommandContext(source, lambda *words: None, RecordedProgress()), command)
    assert power_state(source, guest) is state
