"""Real guests that move between two libvirt daemons, off and while they run; a Linux is asked from inside."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compute_drivers.libvirt.driver import LibvirtDriver
from conductor.conformance.base import MakeGuest, Told
from conductor.conformance.moves import LiveMoves
from conductor.core.compute_driver import ComputeDriver, GuestInfo, NetworkPort
from conductor.core.errors import DriverError, MigrationAborted
from conductor.core.states import PowerState
from tests.compute_drivers.live_hosts import COUNTS, Host, Inside, Watching, two
from tests.compute_drivers.real_guests import IMAGE, PROJECT, files_of, qemu_of
from tests.compute_drivers.test_tiny_linux import linux
from tests.guests import guest_of

PORT = NetworkPort("p", "private", "fa:16:3e:00:00:01", "10.64.0.5", 20, "10.64.0.0/20", "10.64.0.1")
# So slow that there is time to interfere.
SLOWLY = {"migration_mib_per_second": 1}


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Host, Host]]:
    """For all tests."""
    with tempfile.TemporaryDirectory(prefix="nv-") as folder, two(Path(folder)) as hosts:
        yield hosts


class TestMoves(LiveMoves):
    @pytest.fixture
    def driver(self, pair: tuple[Host, Host]) -> ComputeDriver:
        return pair[0].driver

    @pytest.fixture
    def other(self, pair: tuple[Host, Host]) -> ComputeDriver:
        return pair[1].driver

    @pytest.fixture
    def make_guest(self) -> MakeGuest:
        return lambda uuid: guest_of(uuid, IMAGE, ports=(PORT,))


@pytest.fixture(scope="module")
def inside(pair: tuple[Host, Host], tiny_linux: Path) -> Inside:
    guest = linux(tiny_linux, ports=(PORT,), user_data=base64.b64encode(COUNTS).decode())
    pair[0].driver.spawn(guest, Told())
    return Inside(pair[0].driver, guest)


class TestALinux:
    """One guest through it all, in the order of the tests: each says where it leaves the guest."""

    def test_aborted_it_goes_on_where_it_was(self, pair: tuple[Host, Host], inside: Inside) -> None:
        source, destination = pair
        with source.told(**SLOWLY) as slow:
            watching = Watching(lambda: slow.abort_live_migration(inside.uuid))
            target = _prepared(destination, inside)
            with pytest.raises(MigrationAborted):
                slow.live_migrate(inside.guest, target, watching, is_block_migration=None)
        assert {"memory_total", "memory_remaining", "memory_dirty_rate", "memory_passes"} <= set(watching.figures[-1])
        assert watching.figures[-1]["memory_remaining"] < watching.figures[-1]["memory_total"]
        assert "copying memory, pass 1" in watching.sentences
        _stays(source, destination, inside)

    def test_a_destination_that_dies_leaves_it_where_it_was(self, pair: tuple[Host, Host], inside: Inside) -> None:
        source, destination = pair
        with source.told(**SLOWLY) as slow:
            mine = set(qemu_of(inside.uuid))
            watching = Watching(lambda: _kill(*set(qemu_of(inside.uuid)) - mine))
            target = _prepared(destination, inside)
            with pytest.raises(DriverError) as failed:
                slow.live_migrate(inside.guest, target, watching, is_block_migration=None)
        assert not isinstance(failed.value, MigrationAborted)
        _stays(source, destination, inside)

    def test_a_daemon_that_dies_leaves_it_where_it_was(self, pair: tuple[Host, Host], inside: Inside) -> None:
        source, destination = pair
        with source.told(**SLOWLY) as slow:
            target = _prepared(destination, inside)
            with pytest.raises(DriverError):
                slow.live_migrate(inside.guest, target, Watching(source.daemon.kill_9), is_block_migration=None)
            source.daemon.start()
        _stays(source, destination, inside)

    def test_forced_it_arrives_and_has_not_noticed(self, pair: tuple[Host, Host], inside: Inside) -> None:
        """It leaves the guest at the second host."""
        source, destination = pair
        uptime, count = inside.uptime(source.driver), inside.goes_on(source.driver, 0)
        with source.told(**SLOWLY) as slow:
            watching = Watching(lambda: slow.force_live_migration(inside.uuid))
            _move(slow, destination, inside, watching)
        assert _on(pair, inside) == [destination.driver.host]
        inside.goes_on(destination.driver, count)
        assert inside.uptime(destination.driver) >= uptime
        assert files_of(source.driver, inside.uuid) == []
        assert len(qemu_of(inside.uuid)) == 1

    def test_it_comes_back_by_post_copy(self, pair: tuple[Host, Host], inside: Inside) -> None:
        """It leaves the guest at the first host."""
        back, source = pair
        uptime, count = inside.uptime(source.driver), inside.goes_on(source.driver, 0)
        with source.told(**SLOWLY, migration_force="post-copy") as slow:
            _move(slow, back, inside, Watching(lambda: slow.force_live_migration(inside.uuid)))
        assert _on(pair, inside) == [back.driver.host]
        inside.goes_on(back.driver, count)
        assert inside.uptime(back.driver) >= uptime

    def test_a_move_goes_on_without_the_agent_that_began_it(self, pair: tuple[Host, Host], inside: Inside) -> None:
        """It leaves the guest at the second host."""
        source, destination = pair
        count, target = inside.goes_on(source.driver, 0), _prepared(destination, inside)
        agent = _agent(source, source.options(migration_mib_per_second=8), inside, target)
        assert agent.stdout is not None
        assert agent.stdout.readline() == "memory is on its way\n"
        agent.kill()
        agent.wait()
        assert _on(pair, inside) == [source.driver.host]
        source.driver.live_migrate(inside.guest, target, Told(), is_block_migration=None)
        destination.driver.finish_live_migration(inside.guest)
        assert _on(pair, inside) == [destination.driver.host]
        inside.goes_on(destination.driver, count)
        assert files_of(source.driver, inside.uuid) == []

    def test_a_guest_that_dies_on_its_way_has_crashed_where_it_was(
        self, pair: tuple[Host, Host], inside: Inside
    ) -> None:
        destination, source = pair
        with source.told(**SLOWLY) as slow:
            (mine,) = qemu_of(inside.uuid)
            target = _prepared(destination, inside)
            with pytest.raises(DriverError):
                slow.live_migrate(inside.guest, target, Watching(lambda: _kill(mine)), is_block_migration=None)
        destination.driver.cancel_live_migration(inside.uuid)
        assert source.driver.guests() == [GuestInfo(inside.uuid, PowerState.CRASHED)]
        assert destination.driver.guests() == []
        assert qemu_of(inside.uuid) == []
        assert files_of(destination.driver, inside.uuid) == []
        source.driver.destroy(inside.uuid)


def _prepared(destination: Host, inside: Inside) -> dict[str, Any]:
    return dict(destination.driver.prepare_live_migration(inside.guest, is_block_migration=None))


def _move(source: LibvirtDriver, destination: Host, inside: Inside, watching: Watching) -> None:
    began, target = time.monotonic(), _prepared(destination, inside)
    source.live_migrate(inside.guest, target, watching, is_block_migration=None)
    destination.driver.finish_live_migration(inside.guest)
    assert watching.figures[-1]["memory_remaining"] < watching.figures[-1]["memory_total"]
    assert time.monotonic() - began < 120.0


def _on(pair: tuple[Host, Host], inside: Inside) -> list[str]:
    return [host.driver.host for host in pair if GuestInfo(inside.uuid, PowerState.RUNNING) in host.driver.guests()]


def _stays(source: Host, destination: Host, inside: Inside) -> None:
    """The guest goes on at the source, and nothing of it is left at the destination."""
    destination.driver.cancel_live_migration(inside.uuid)
    assert source.driver.guests() == [GuestInfo(inside.uuid, PowerState.RUNNING)]
    assert destination.driver.guests() == []
    assert files_of(destination.driver, inside.uuid) == []
    assert len(qemu_of(inside.uuid)) == 1
    inside.goes_on(source.driver, inside.counts(source.driver)[-1])


def _kill(*pids: int) -> None:
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


AGENT = """
import json, sys
from compute_drivers.libvirt.driver import LibvirtDriver
from conductor.core.compute_driver import GuestSpec
told = json.load(sys.stdin)
driver = LibvirtDriver(told["host"], told["options"], None)
driver.start()
def progress(message, share=None, figures=None):
    if figures and figures.get("memory_processed", 0) > 1 << 20:
        print("memory is on its way", flush=True)
driver.live_migrate(GuestSpec.from_json(told["guest"]), told["target"], progress, is_block_migration=None)
"""


def _agent(source: Host, options: dict[str, Any], inside: Inside, target: dict[str, Any]) -> subprocess.Popen[str]:
    """A process that moves the guest, and says so."""
    told = {"host": source.driver.host, "options": options, "guest": inside.guest.to_json(), "target": target}
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT
    )
    assert agent.stdin is not None
    agent.stdin.write(json.dumps(told))
    agent.stdin.close()
    return agent
