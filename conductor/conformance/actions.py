"""Conformance tests of actions on guests that stay on their host. See `driver.py`."""

from __future__ import annotations

import contextlib
import io
import json
import socket
from collections.abc import Callable
from typing import BinaryIO
from uuid import uuid4

import pytest

from conductor.conformance.base import MakeGuest, RecordedProgress, lacks, offers, power_state, restarted, uuids
from conductor.conformance.volumes import VolumeConformance
from conductor.core.compute_driver import CAPABILITIES, ComputeDriver, GuestSpec, NetworkPort
from conductor.core.consoles import CAPABILITY_OF, ConsoleKind
from conductor.core.errors import DriverError, GuestMissing, StaleToken
from conductor.core.live_steering import STEERINGS
from conductor.core.states import PowerState

VERBS_OF = {
    "pause": ("pause", "unpause"),
    "suspend": ("suspend", "resume"),
    "rescue": ("rescue", "unrescue"),
    "rebuild": ("rebuild",),
    "snapshot": ("snapshot",),
    "set_password": ("set_admin_password",),
    "crash_dump": ("trigger_crash_dump",),
    "vnc_console": ("open_console",),
    "serial_console": ("open_console",),
    "diagnostics": ("diagnostics",),
    "guest_password": ("posted_password", "forget_password"),
    "attach_volume": ("attach_volume", "detach_volume"),
    "swap_volume": ("swap_volume",),
    "attach_interface": ("attach_interface", "detach_interface"),
    "migrate": ("migrate_out", "migrate_in", "confirm_migration", "revert_migration"),
    "live_migrate": (
        "prepare_live_migration",
        "live_migrate",
        "finish_live_migration",
        "cancel_live_migration",
        "abort_live_migration",
        "force_live_migration",
    ),
    **dict.fromkeys((one.capability for one in STEERINGS.values()), ("steer_live_migration",)),
    "evacuate": ("take_over", "hand_back"),
}
ALWAYS = ("report", "guests", "spawn", "destroy", "power_on", "power_off", "reboot")
PORT = NetworkPort("0a6f3f0e-5d52-4d0e-9a53-2f1f6f1f8d3c", "back", "fa:16:3e:0a:0b:0c", "10.9.0.7", 24, "10.9.0.0/24")
OFF = (PowerState.SHUTDOWN, PowerState.CRASHED)
VNC, SERIAL = ConsoleKind.VNC, ConsoleKind.SERIAL
CONSOLE_SECONDS = 30.0
DISK_FIGURES = {"read_bytes", "read_requests", "write_bytes", "write_requests", "errors_count"}

# Actions on a guest that does not exist, by the capability that they need.
ON_NOTHING: dict[str, tuple[str, Callable[[ComputeDriver, GuestSpec], object]]] = {
    "power_on": ("", lambda driver, guest: driver.power_on(guest)),
    "power_off": ("", lambda driver, guest: driver.power_off(guest.instance_uuid, 0.0)),
    "reboot": ("", lambda driver, guest: driver.reboot(guest, is_hard=False, timeout_seconds=0.0)),
    "pause": ("pause", lambda driver, guest: driver.pause(guest.instance_uuid)),
    "unpause": ("pause", lambda driver, guest: driver.unpause(guest.instance_uuid)),
    "suspend": ("suspend", lambda driver, guest: driver.suspend(guest.instance_uuid)),
    "resume": ("suspend", lambda driver, guest: driver.resume(guest)),
    "rescue": ("rescue", lambda driver, guest: driver.rescue(guest, "", RecordedProgress())),
    "unrescue": ("rescue", lambda driver, guest: driver.unrescue(guest, is_running=True)),
    "rebuild": ("rebuild", lambda driver, guest: driver.rebuild(guest, RecordedProgress(), is_running=True)),
    "set_admin_password": ("set_password", lambda driver, guest: driver.set_admin_password(guest.instance_uuid, "x")),
    "trigger_crash_dump": ("crash_dump", lambda driver, guest: driver.trigger_crash_dump(guest.instance_uuid)),
    "snapshot": (
        "snapshot",
        lambda driver, guest: driver.snapshot(
            guest.instance_uuid, str(uuid4()), SnapshotImageStore().store, RecordedProgress()
        ),
    ),
    "open_console vnc": ("vnc_console", lambda driver, guest: driver.open_console(guest.instance_uuid, VNC)),
    "open_console serial": ("serial_console", lambda driver, guest: driver.open_console(guest.instance_uuid, SERIAL)),
    "diagnostics": ("diagnostics", lambda driver, guest: driver.diagnostics(guest.instance_uuid)),
    "posted_password": ("guest_password", lambda driver, guest: driver.posted_password(guest.instance_uuid)),
    "detach_volume": ("attach_volume", lambda driver, guest: driver.detach_volume(guest.instance_uuid, str(uuid4()))),
    "attach_interface": ("attach_interface", lambda driver, guest: driver.attach_interface(guest.instance_uuid, PORT)),
    "detach_interface": (
        "attach_interface",
        lambda driver, guest: driver.detach_interface(guest.instance_uuid, PORT.port_uuid),
    ),
    "migrate_out": ("migrate", lambda driver, guest: driver.migrate_out(guest, "elsewhere", RecordedProgress())),
    "revert_migration": ("migrate", lambda driver, guest: driver.revert_migration(guest, is_running=True)),
    "finish_live_migration": ("live_migrate", lambda driver, guest: driver.finish_live_migration(guest)),
}


def _read(stream: socket.socket, amount: int) -> bytes:
    found = b""
    while len(found) < amount:
        piece = stream.recv(amount - len(found))
        assert piece, f"ended after {found!r}"
        found += piece
    return found


def _read_to_the_end(stream: socket.socket) -> None:
    with contextlib.suppress(ConnectionResetError):
        while stream.recv(65536):
            pass


class SnapshotImageStore:
    """Stores the images of a driver's snapshots."""

    def __init__(self) -> None:
        self.images: dict[str, tuple[str, bytes]] = {}

    def store(self, image_id: str, disk_format: str, data: BinaryIO) -> None:
        self.images[image_id] = (disk_format, data.read())


class ActionConformance(VolumeConformance):
    """Power, pause, rescue, rebuild, snapshots and ports."""

    def test_it_says_what_it_can_do_and_can(self, driver: ComputeDriver) -> None:
        assert driver.capabilities <= set(CAPABILITIES) == set(VERBS_OF)
        verbs = {verb for name in driver.capabilities for verb in VERBS_OF[name]} | set(ALWAYS)
        base = vars(ComputeDriver)
        assert [verb for verb in sorted(verbs) if getattr(type(driver), verb) is base[verb]] == []

    @pytest.mark.parametrize("verb", ON_NOTHING)
    def test_a_guest_that_is_not_there_is_missing(
        self, driver: ComputeDriver, make_guest: MakeGuest, verb: str
    ) -> None:
        needs, call = ON_NOTHING[verb]
        if needs and lacks(driver, needs):
            return
        before = driver.guests()
        with pytest.raises(GuestMissing):
            call(driver, make_guest(str(uuid4())))
        assert driver.guests() == before

    # -- queries

    def test_figures_of_a_guest_that_runs_travel_and_one_that_is_off_has_none(
        self, driver: ComputeDriver, running: GuestSpec
    ) -> None:
        if lacks(driver, "diagnostics"):
            return
        body = json.loads(json.dumps(driver.diagnostics(running.instance_uuid)))
        assert [cpu["id"] for cpu in body["cpus"]] == list(range(running.flavor.vcpus))
        assert 0 < body["memory"]["used"] <= body["memory"]["maximum"] == running.flavor.memory_mb
        assert {key for disk in body["disks"] for key in disk} <= DISK_FIGURES
        assert {nic["mac_address"] for nic in body["nics"]} <= {port.mac_address for port in running.ports}
        driver.power_off(running.instance_uuid, 0.0)
        with pytest.raises(DriverError):
            driver.diagnostics(running.instance_uuid)

    def test_a_guest_that_posted_no_password_has_none_to_forget(
        self, driver: ComputeDriver, running: GuestSpec
    ) -> None:
        if lacks(driver, "guest_password"):
            return
        for _ in range(2):
            assert driver.posted_password(running.instance_uuid) == ""
            driver.forget_password(running.instance_uuid)

    # -- consoles

    def test_its_screen_speaks_the_protocol_of_screens_to_several_at_once(
        self, driver: ComputeDriver, running: GuestSpec
    ) -> None:
        if lacks(driver, "vnc_console"):
            return
        screens = [driver.open_console(running.instance_uuid, VNC) for _ in range(2)]
        try:
            for screen in screens:
                screen.settimeout(CONSOLE_SECONDS)
                assert _read(screen, 12) == b"RFB 003.008\n"
                screen.sendall(b"RFB 003.008\n")
                amount = _read(screen, 1)[0]
                assert 1 in _read(screen, amount), "no way in without a password"
        finally:
            for screen in screens:
                screen.close()

    def test_its_serial_line_takes_what_is_typed_and_can_be_opened_again(
        self, driver: ComputeDriver, running: GuestSpec
    ) -> None:
        if lacks(driver, "serial_console"):
            return
        for _ in range(2):
            with driver.open_console(running.instance_uuid, SERIAL) as line:
                line.settimeout(CONSOLE_SECONDS)
                line.sendall(b"\r")
        assert power_state(driver, running) is PowerState.RUNNING

    @pytest.mark.parametrize("kind", ConsoleKind)
    def test_a_console_ends_with_its_guest_and_one_that_is_off_has_none(
        self, driver: ComputeDriver, running: GuestSpec, kind: ConsoleKind
    ) -> None:
        if lacks(driver, CAPABILITY_OF[kind]):
            return
        with driver.open_console(running.instance_uuid, kind) as console:
            console.settimeout(CONSOLE_SECONDS)
            driver.power_off(running.instance_uuid, 0.0)
            _read_to_the_end(console)
        with pytest.raises(DriverError):
            driver.open_console(running.instance_uuid, kind)

    # -- power

    def test_off_and_on_again_and_again(self, driver: ComputeDriver, running: GuestSpec) -> None:
        for _ in range(2):
            driver.power_off(running.instance_uuid, 0.0)
            assert power_state(driver, running) in OFF
        for _ in range(2):
            driver.power_on(running)
            assert power_state(driver, running) is PowerState.RUNNING

    def test_a_guest_that_is_off_stays_off_over_a_restart_and_can_be_destroyed(
        self, driver: ComputeDriver, running: GuestSpec
    ) -> None:
        driver.power_off(running.instance_uuid, 0.0)
        again = restarted(driver)
        try:
            assert power_state(again, running) in OFF
            again.power_on(running)
            assert power_state(again, running) is PowerState.RUNNING
            again.power_off(running.instance_uuid, 0.0)
            again.destroy(running.instance_uuid)
            assert running.instance_uuid not in uuids(again)
        finally:
            again.stop()
            driver.start()

    @pytest.mark.parametrize("is_hard", [False, True])
    def test_a_rebooted_guest_runs(self, driver: ComputeDriver, running: GuestSpec, is_hard: bool) -> None:
        for _ in range(2):
            driver.reboot(running, is_hard=is_hard, timeout_seconds=0.0)
            assert power_state(driver, running) is PowerState.RUNNING

    def test_a_hard_reboot_starts_whatever_is_there(self, driver: ComputeDriver, running: GuestSpec) -> None:
        driver.power_off(running.instance_uuid, 0.0)
        driver.reboot(running, is_hard=True, timeout_seconds=0.0)
        assert power_state(driver, running) is PowerState.RUNNING
        if offers(driver, "pause"):
            driver.pause(running.instance_uuid)
            driver.reboot(running, is_hard=True, timeout_seconds=0.0)
            assert power_state(driver, running) is PowerState.RUNNING

    def test_paused_and_going_on(self, driver: ComputeDriver, running: GuestSpec) -> None:
        if lacks(driver, "pause"):
            return
        for _ in range(2):
            driver.pause(running.instance_uuid)
            assert power_state(driver, running) is PowerState.PAUSED
        for _ in range(2):
            driver.unpause(running.instance_uuid)
            assert power_state(driver, running) is PowerState.RUNNING
        driver.power_off(running.instance_uuid, 0.0)
        with pytest.raises(DriverError):
            driver.pause(running.instance_uuid)
        assert power_state(driver, running) in OFF

    def test_suspended_over_a_restart_and_resumed(self, driver: ComputeDriver, running: GuestSpec) -> None:
        if lacks(driver, "suspend"):
            return
        for _ in range(2):
            driver.suspend(running.instance_uuid)
            assert power_state(driver, running) is PowerState.SUSPENDED
        again = restarted(driver)
        try:
            assert power_state(again, running) is PowerState.SUSPENDED
            for _ in range(2):
                again.resume(running)
                assert power_state(again, running) is PowerState.RUNNING
            again.suspend(running.instance_uuid)
            again.destroy(running.instance_uuid)
            assert running.instance_uuid not in uuids(again)
        finally:
            again.stop()
            driver.start()

    # -- rescue and rebuild

    def test_rescued_and_back(self, driver: ComputeDriver, running: GuestSpec) -> None:
        if lacks(driver, "rescue"):
            return
        for _ in range(2):
            driver.rescue(running, "correct horse", RecordedProgress())
            assert power_state(driver, running) is PowerState.RUNNING
        for is_running in (True, True, False):
            driver.unrescue(running, is_running=is_running)
            assert power_state(driver, running) is PowerState.RUNNING  # once is enough
        driver.rescue(running, "correct horse", RecordedProgress())
        driver.unrescue(running, is_running=False)
        assert power_state(driver, running) in OFF
        driver.power_on(running)
        assert power_state(driver, running) is PowerState.RUNNING

    def test_a_rescued_guest_can_be_destroyed(self, driver: ComputeDriver, running: GuestSpec) -> None:
        if lacks(driver, "rescue"):
            return
        driver.rescue(running, "", RecordedProgress())
        driver.destroy(running.instance_uuid)
        assert running.instance_uuid not in uuids(driver)

    def test_rebuilt_running_or_not(self, driver: ComputeDriver, running: GuestSpec) -> None:
        if lacks(driver, "rebuild"):
            return
        for is_running in (True, False, True):
            driver.rebuild(running, RecordedProgress(), is_running=is_running)
            assert (power_state(driver, running) is PowerState.RUNNING) is is_running

    def test_a_stale_rebuild_can_be_repeated(self, driver: ComputeDriver, running: GuestSpec) -> None:
        if lacks(driver, "rebuild"):
            return
        with pytest.raises(StaleToken):
            driver.rebuild(running, RecordedProgress(stop_at=1), is_running=True)
        driver.rebuild(running, RecordedProgress(), is_running=True)
        assert power_state(driver, running) is PowerState.RUNNING

    def test_a_snapshot_of_a_guest_that_runs_and_of_one_that_is_off(
        self, driver: ComputeDriver, running: GuestSpec
    ) -> None:
        if lacks(driver, "snapshot"):
            return
        shelf, body = SnapshotImageStore(), RecordedProgress()
        driver.snapshot(running.instance_uuid, "first", shelf.store, body)
        assert power_state(driver, running) is PowerState.RUNNING
        driver.power_off(running.instance_uuid, 0.0)
        driver.snapshot(running.instance_uuid, "second", shelf.store, body)
        assert power_state(driver, running) in OFF
        assert set(shelf.images) == {"first", "second"}
        assert all(disk_format and data for disk_format, data in shelf.images.values())
        assert body.calls

    def test_a_snapshot_that_cannot_be_stored_leaves_the_guest_as_it_is(
        self, driver: ComputeDriver, running: GuestSpec
    ) -> None:
        if lacks(driver, "snapshot"):
            return

        def full(image_id: str, disk_format: str, data: io.IOBase) -> None:
            raise OSError("no space left")

        with pytest.raises((OSError, DriverError)):
            driver.snapshot(running.instance_uuid, "first", full, RecordedProgress())  # type: ignore[arg-type]
        assert power_state(driver, running) is PowerState.RUNNING
        shelf = SnapshotImageStore()
        driver.snapshot(running.instance_uuid, "first", shelf.store, RecordedProgress())
        assert "first" in shelf.images

    # -- inside the guest

    def test_a_password_and_a_crash_dump_need_a_guest_that_runs(
        self, driver: ComputeDriver, running: GuestSpec
    ) -> None:
        driver.power_off(running.instance_uuid, 0.0)
        if offers(driver, "set_password"):
            with pytest.raises(DriverError):
                driver.set_admin_password(running.instance_uuid, "correct horse")
        if offers(driver, "crash_dump"):
            with pytest.raises(DriverError):
                driver.trigger_crash_dump(running.instance_uuid)
        assert power_state(driver, running) in OFF

    # -- ports and volumes

    def test_ports_come_and_go_while_it_runs_and_while_it_is_off(
        self, driver: ComputeDriver, running: GuestSpec
    ) -> None:
        if lacks(driver, "attach_interface"):
            return
        uuid = running.instance_uuid
        for turn in ("on", "off"):
            for _ in range(2):
                driver.attach_interface(uuid, PORT)
            self._detached(turn == "on", lambda: driver.detach_interface(uuid, PORT.port_uuid))
            if turn == "on":
                assert power_state(driver, running) is PowerState.RUNNING
                driver.power_off(uuid, 0.0)
        driver.power_on(running)
        assert power_state(driver, running) is PowerState.RUNNING
