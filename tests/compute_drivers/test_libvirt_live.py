"""Real guests that move between two libvirt daemons, off and while they run; a Linux is asked from inside."""

from __future__ import annotations

import base64
import os
import re
import select
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from compute_drivers.libvirt.driver import LibvirtDriver
from conductor.conformance.base import MakeGuest, RecordedProgress
from conductor.conformance.moves import ColdMoves, LiveMoves, SharedDisks
from conductor.core.compute_driver import ComputeDriver, GuestInfo, NetworkPort, VolumeConnection
from conductor.core.errors import DriverError, MigrationAborted
from conductor.core.request_spec import ImageSpec
from conductor.core.states import PowerState
from tests.compute_drivers.live_hosts import COUNTS, Host, Inside, Judging, Watching, agent_of, two
from tests.compute_drivers.real_guests import IMAGE, SECONDS, SHELF, ask, files_of, state_dir, wait_for
from tests.fixtures.tiny_guests import linux
from tests.guests import TICK, boot_disk, guest_of, qemu_of

PORT = NetworkPort("p", "private", "fa:16:3e:00:00:01", "10.64.0.5", 20, "10.64.0.0/20", "10.64.0.1")
SECOND = NetworkPort("p2", "back", "fa:16:3e:00:00:02", "192.168.7.20", 24, "192.168.7.0/24")
# So slow that there is time to interfere.
SLOWLY = {"migration_mib_per_second": 1}
# The words that are waited for are not those that are typed.
KEEPS_BUSY = (
    b"head -c 6000000 /dev/urandom > /tmp/new; (while :; do cat /tmp/new > /tmp/old; done) & w=now; echo busy $w.\n"
)
RESTS = b"kill $!; rm /tmp/new /tmp/old; w=again; echo idle $w.\n"


@pytest.fixture(scope="module")
def pair(tiny_linux: Path) -> Iterator[tuple[Host, Host]]:
    """Two hosts for all tests. What has to be fetched for their guests is there before."""
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
def sharing(pair: tuple[Host, Host]) -> Iterator[tuple[LibvirtDriver, LibvirtDriver]]:
    """The same two hosts with one folder for the disks of both, and guests without networks."""
    shared = state_dir(pair[0].driver).parent / "shared"
    shared.mkdir()
    options = {"shared_dir": str(shared), "guest_network": "none"}
    with pair[0].with_options(**options) as one, pair[1].with_options(**options) as other:
        yield one, other
    left = [path for path in shared.rglob("*") if path.is_file() and path.parent.parent.name != "images"]
    assert left == []


class TestMovesWithSharedDisks(ColdMoves, LiveMoves, SharedDisks):
    @pytest.fixture
    def driver(self, sharing: tuple[LibvirtDriver, LibvirtDriver]) -> ComputeDriver:
        return sharing[0]

    @pytest.fixture
    def other(self, sharing: tuple[LibvirtDriver, LibvirtDriver]) -> ComputeDriver:
        return sharing[1]

    @pytest.fixture
    def make_guest(self) -> MakeGuest:
        return lambda uuid: guest_of(uuid, IMAGE, ports=(PORT,))


def test_a_dead_host_that_comes_back_leaves_what_was_taken_over_alone(
    pair: tuple[Host, Host], sharing: tuple[LibvirtDriver, LibvirtDriver]
) -> None:
    (dead, taker), guest = sharing, guest_of(str(uuid4()), IMAGE)
    uuid = guest.instance_uuid
    here = [GuestInfo(uuid, PowerState.RUNNING)]
    dead.spawn(guest, RecordedProgress())
    with pytest.raises(DriverError, match="still runs elsewhere"):
        taker.take_over(guest, dead.host, RecordedProgress())  # it only seemed dead
    assert (dead.guests(), taker.guests()) == (here, [])
    pair[0].daemon.kill_9()
    _kill(*qemu_of(uuid))
    taker.take_over(guest, dead.host, RecordedProgress())
    pair[0].daemon.start()
    back = LibvirtDriver(dead.host, dead.options, SHELF.open)
    back.start()
    assert back.guests() == [GuestInfo(uuid, PowerState.CRASHED)], "it is listed until the conductor has it destroyed"
    with pytest.raises(DriverError):
        back.power_on(guest)
    assert taker.guests() == here
    for _ in range(2):
        back.destroy(uuid)
    assert back.guests() == []
    assert not back.node.connection.has(uuid)
    back.stop()
    assert taker.guests() == here
    assert len(qemu_of(uuid)) == 1
    taker.reboot(guest, is_hard=True, timeout_seconds=0.0)
    wait_for(taker, uuid, TICK)
    taker.destroy(uuid)


@pytest.fixture(scope="module")
def inside(pair: tuple[Host, Host], tiny_linux: Path) -> Inside:
    """A Linux guest whose volume and second port were attached while it ran."""
    guest = linux(tiny_linux, ports=(PORT,), user_data=base64.b64encode(COUNTS).decode())
    driver, path = pair[0].driver, state_dir(pair[0].driver).parent / "volume.raw"
    path.write_bytes(bytes(2 << 20))
    volume = VolumeConnection("6f5e3f0c-9a43-4ac1-9f7d-6a2b8c2b9d11", str(path), 1, device_name="/dev/vdb")
    driver.spawn(guest, RecordedProgress())
    found = Inside(driver, replace(guest, ports=(PORT, SECOND), volumes=(volume,)))
    driver.attach_volume(guest.instance_uuid, volume)
    driver.attach_interface(guest.instance_uuid, SECOND)
    return found


class TestALinux:
    """One guest in all tests, in their order: each documents its final host."""

    def test_an_aborted_migration_leaves_the_guest_running_at_the_source(
        self, pair: tuple[Host, Host], inside: Inside
    ) -> None:
        source, destination = pair

        def abort() -> None:
            for kind, words in (("throttle", "began without throttling"), ("post-copy", "could not steer the move")):
                with pytest.raises(DriverError, match=words):  # QEMU is not prepared for either
                    slow.steer_live_migration(inside.uuid, kind, 40)
            slow.abort_live_migration(inside.uuid)

        with source.with_options(**SLOWLY, migration_throttles=False) as slow:
            assert slow.capabilities == source.driver.capabilities - {"live_throttle"}
            watching = Watching(abort)
            target = _prepared(destination, inside)
            with pytest.raises(MigrationAborted):
                slow.live_migrate(inside.guest, target, watching, is_block_migration=None)
        assert {"memory_total", "memory_remaining", "memory_pass", "downtime_limit_ms"} <= set(watching.figures[-1])
        assert "memory_dirty_rate" not in watching.figures[-1], "nothing is counted yet"
        assert watching.figures[-1]["memory_remaining"] < watching.figures[-1]["memory_total"]
        assert "copying memory, pass 1" in watching.sentences
        _stays(source, destination, inside)

    def test_a_dead_destination_leaves_the_guest_at_the_source(self, pair: tuple[Host, Host], inside: Inside) -> None:
        source, destination = pair
        with source.with_options(**SLOWLY) as slow:
            mine = set(qemu_of(inside.uuid))
            watching = Watching(lambda: _kill(*set(qemu_of(inside.uuid)) - mine))
            target = _prepared(destination, inside)
            with pytest.raises(DriverError) as failed:
                slow.live_migrate(inside.guest, target, watching, is_block_migration=None)
        assert not isinstance(failed.value, MigrationAborted)
        _stays(source, destination, inside)

    def test_a_dead_daemon_leaves_the_guest_at_the_source(self, pair: tuple[Host, Host], inside: Inside) -> None:
        source, destination = pair
        with source.with_options(**SLOWLY) as slow:
            target = _prepared(destination, inside)
            with pytest.raises(DriverError):
                slow.live_migrate(inside.guest, target, Watching(source.daemon.kill_9), is_block_migration=None)
            source.daemon.start()
        _stays(source, destination, inside)

    def test_a_busy_guest_does_not_converge_and_arrives_when_throttled_and_forced(
        self, pair: tuple[Host, Host], inside: Inside
    ) -> None:
        """It writes the same memory over and over, more than the link takes. It leaves the guest at the second host."""
        source, destination = pair
        uptime, count = inside.uptime(source.driver), inside.goes_on(source.driver, 0)
        ask(source.driver, inside.uuid, KEEPS_BUSY, b"busy now.")
        # A slow link and the least downtime: the move never ends by itself, however slowly this machine runs it.
        with source.with_options(migration_mib_per_second=4, migration_downtime_ms=1) as slow:
            force = Watching(
                lambda: slow.force_live_migration(inside.uuid),
                lambda figures: figures["throttle_percent"] == 30,
            )
            watching = Judging(lambda: slow.steer_live_migration(inside.uuid, "throttle", 30), force)
            _move(slow, destination.driver, inside, watching)
        assert re.search(r"Not converging: the server changes .+/s, the link moves .+/s\.", watching.verdicts[-1].text)
        assert watching.figures[-1]["memory_pass"] > 1
        assert 30 in {one["throttle_percent"] for one in force.figures}
        ask(destination.driver, inside.uuid, RESTS, b"idle again.")
        assert _on(pair, inside) == [destination.driver.host]
        inside.goes_on(destination.driver, count)
        assert inside.uptime(destination.driver) >= uptime
        assert files_of(source.driver, inside.uuid) == []
        assert len(qemu_of(inside.uuid)) == 1

    def test_the_guest_migrates_back_by_post_copy_over_tcp(self, pair: tuple[Host, Host], inside: Inside) -> None:
        """It leaves the guest at the first host."""
        back, source = pair
        uptime, count = inside.uptime(source.driver), inside.goes_on(source.driver, 0)
        with (
            source.with_options(**SLOWLY, migration_force="post-copy") as slow,
            back.with_options(migration_address="tcp://127.0.0.1") as there,
        ):
            _move(slow, there, inside, Watching(lambda: slow.force_live_migration(inside.uuid)))
        assert _on(pair, inside) == [back.driver.host]
        inside.goes_on(back.driver, count)
        assert inside.uptime(back.driver) >= uptime

    def test_a_migration_continues_without_the_agent_that_started_it(
        self, pair: tuple[Host, Host], inside: Inside
    ) -> None:
        """It leaves the guest at the second host."""
        source, destination = pair
        count, target = inside.goes_on(source.driver, 0), _prepared(destination, inside)
        agent = agent_of(source, source.options(migration_mib_per_second=8), inside, target)
        assert agent.stdout is not None
        assert agent.stdout.readline() == "memory is on its way\n"
        agent.kill()
        agent.wait(timeout=SECONDS)
        assert _on(pair, inside) == [source.driver.host]
        source.driver.steer_live_migration(inside.uuid, "downtime", 700)
        watching = Watching(lambda: source.driver.steer_live_migration(inside.uuid, "downtime", 60_000))
        source.driver.live_migrate(inside.guest, target, watching, is_block_migration=None)
        assert watching.figures[0]["downtime_limit_ms"] == 700
        assert watching.figures[-1]["downtime_limit_ms"] == 60_000
        destination.driver.finish_live_migration(inside.guest)
        assert _on(pair, inside) == [destination.driver.host]
        inside.goes_on(destination.driver, count)
        assert files_of(source.driver, inside.uuid) == []
        # The attached device moved along, and the guest releases it here.
        destination.driver.detach_interface(inside.uuid, SECOND.port_uuid)
        destination.driver.detach_volume(inside.uuid, inside.guest.volumes[0].volume_uuid)
        with destination.driver.node.connection.guest(inside.uuid, "look") as found:
            assert not found.has_nic("card-p2")
            assert "vdb" not in found.disk_targets()

    def test_after_a_switch_to_post_copy_a_migration_cannot_be_aborted(
        self, pair: tuple[Host, Host], inside: Inside
    ) -> None:
        """It leaves the guest at the first host."""
        destination, source = pair
        count = inside.goes_on(source.driver, 0)

        def switch() -> None:
            for _ in range(2):
                slow.steer_live_migration(inside.uuid, "post-copy", 0)
            with pytest.raises(DriverError, match="can no longer be aborted"):
                slow.abort_live_migration(inside.uuid)

        with source.with_options(**SLOWLY, migration_post_copy=True) as slow:
            assert "live_post_copy" in slow.capabilities - source.driver.capabilities
            watching = Watching(switch)
            _move(slow, destination.driver, inside, watching)
        last = watching.figures[-1]  # the rest may have arrived before the next check
        assert last["is_post_copy"] or last["memory_remaining"] > 10 << 20, "it waited until the memory was sent"
        assert _on(pair, inside) == [destination.driver.host]
        inside.goes_on(destination.driver, count)

    def test_a_guest_that_dies_during_a_migration_has_crashed_at_the_source(
        self, pair: tuple[Host, Host], inside: Inside
    ) -> None:
        source, destination = pair
        with source.with_options(**SLOWLY) as slow:
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


def test_a_tunnel_takes_no_disks_of_a_guest(pair: tuple[Host, Host]) -> None:
    (source, destination), guest = pair, guest_of(str(uuid4()), IMAGE)
    with source.with_options(migration_transport="tunnelled") as tunnelled:
        tunnelled.spawn(guest, RecordedProgress())
        target = dict(destination.driver.prepare_live_migration(guest, is_block_migration=None))
        with pytest.raises(DriverError, match="A tunnel takes no disks"):
            tunnelled.live_migrate(guest, target, RecordedProgress(), is_block_migration=None)
        assert tunnelled.guests() == [GuestInfo(guest.instance_uuid, PowerState.RUNNING)]
        destination.driver.cancel_live_migration(guest.instance_uuid)
        tunnelled.destroy(guest.instance_uuid)
    assert files_of(destination.driver, guest.instance_uuid) == []


def test_a_tunnel_takes_a_guest_that_has_only_volumes(pair: tuple[Host, Host], tmp_path: Path) -> None:
    (source, destination), path = pair, tmp_path / "volume.raw"
    path.write_bytes(boot_disk())
    volume = VolumeConnection(str(uuid4()), str(path), 1, boot_index=0)
    guest = guest_of(str(uuid4()), ImageSpec(), volumes=(volume,), ports=(PORT,))
    with source.with_options(migration_transport="tunnelled") as tunnelled:
        tunnelled.spawn(guest, RecordedProgress())
        target = dict(destination.driver.prepare_live_migration(guest, is_block_migration=False))
        tunnelled.live_migrate(guest, target, RecordedProgress(), is_block_migration=False)
    assert destination.driver.guests() == [GuestInfo(guest.instance_uuid, PowerState.RUNNING)]
    wait_for(destination.driver, guest.instance_uuid, TICK)
    destination.driver.destroy(guest.instance_uuid)
    assert path.exists()


def test_files_of_guests_that_left_without_an_agent_are_removed_by_the_next_agent(pair: tuple[Host, Host]) -> None:
    uuid, state = str(uuid4()), state_dir(pair[0].driver)
    (state / "instances" / uuid).mkdir()
    (state / "instances" / uuid / "root.qcow2").touch()
    (state / "moving" / f"{uuid}.leaving").write_text('{"uri": "qemu+unix:///system?socket=/nobody"}')
    assert pair[0].driver.guests() == []
    with pair[0].with_options():
        assert files_of(pair[0].driver, uuid) == []


def test_disks_wrongly_configured_as_shared_are_refused_and_nothing_is_created(pair: tuple[Host, Host]) -> None:
    guest, driver = guest_of(str(uuid4()), IMAGE), pair[1].driver
    with pytest.raises(DriverError, match="share no disks"):
        driver.prepare_live_migration(guest, is_block_migration=False)
    volume = VolumeConnection(str(uuid4()), "/nowhere/volume.raw", 1)
    with pytest.raises(DriverError, match=f"cannot open volume {volume.volume_uuid}"):
        driver.prepare_live_migration(replace(guest, volumes=(volume,)), is_block_migration=None)
    assert files_of(driver, guest.instance_uuid) == []


def test_a_copy_of_a_folder_is_not_taken_for_the_folder(pair: tuple[Host, Host], tmp_path: Path) -> None:
    """Both hosts are configured to share the folder, and the owner note was copied too."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    guest = guest_of(str(uuid4()), IMAGE)
    with pair[0].with_options(shared_dir=str(ours)) as source:
        source.spawn(guest, RecordedProgress())
        shutil.copytree(ours, theirs)
        with pair[1].with_options(shared_dir=str(theirs)) as destination:
            target = dict(destination.prepare_live_migration(guest, is_block_migration=None))
            assert target["is_block_migration"] is False, "it believes that note"
            with pytest.raises(DriverError, match="share no disks"):
                source.live_migrate(guest, target, RecordedProgress(), is_block_migration=None)
            destination.cancel_live_migration(guest.instance_uuid)
        assert source.guests() == [GuestInfo(guest.instance_uuid, PowerState.RUNNING)]
        source.destroy(guest.instance_uuid)
    assert not list(theirs.rglob("seen"))


def _prepared(destination: Host, inside: Inside) -> dict[str, Any]:
    return dict(destination.driver.prepare_live_migration(inside.guest, is_block_migration=None))


def _move(source: LibvirtDriver, destination: LibvirtDriver, inside: Inside, watching: Watching) -> None:
    target = dict(destination.prepare_live_migration(inside.guest, is_block_migration=None))
    source.live_migrate(inside.guest, target, watching, is_block_migration=None)
    destination.finish_live_migration(inside.guest)
    assert any(0 < figures["memory_remaining"] < figures["memory_total"] for figures in watching.figures)


def _on(pair: tuple[Host, Host], inside: Inside) -> list[str]:
    return [host.driver.host for host in pair if GuestInfo(inside.uuid, PowerState.RUNNING) in host.driver.guests()]


def _stays(source: Host, destination: Host, inside: Inside) -> None:
    """Check that the guest continues at the source, and that nothing of it is left at the destination."""
    destination.driver.cancel_live_migration(inside.uuid)
    assert source.driver.guests() == [GuestInfo(inside.uuid, PowerState.RUNNING)]
    assert destination.driver.guests() == []
    assert files_of(destination.driver, inside.uuid) == []
    assert len(qemu_of(inside.uuid)) == 1
    inside.goes_on(source.driver, inside.counts(source.driver)[-1])


def _kill(*pids: int) -> None:
    """Kill processes and wait until they have ended, and have closed their disks."""
    assert pids
    for pid in pids:
        process = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        assert select.select([process], [], [], SECONDS)[0]
        os.close(process)
