"""The libvirt driver on real QEMU processes, mostly with a guest that is only a boot sector."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from compute_drivers.libvirt import attachments, embedded, power
from compute_drivers.libvirt.capability import probe
from compute_drivers.libvirt.driver import LibvirtDriver
from conductor.conformance.actions import SnapshotImageStore
from conductor.conformance.driver import DriverConformance, MakeGuest, RecordedProgress
from conductor.core.compute_driver import ComputeDriver, GuestInfo, NetworkPort, VolumeConnection
from conductor.core.errors import BuildAborted, DriverError, StaleToken
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.core.states import PowerState
from tests.compute_drivers.moved_clock import MovedClock
from tests.compute_drivers.real_guests import (
    DISK,
    IMAGE,
    PROJECT,
    QUICK,
    SECONDS,
    SHELF,
    files_of,
    state_dir,
    wait_for,
)
from tests.guests import BANNER, TICK, boot_disk, guest_of, image_of, qemu_of
from tests.waiting import assert_stays, wait_until

PORT = NetworkPort("p", "private", "fa:16:3e:00:00:01", "10.64.0.5", 20, "10.64.0.0/20", "10.64.0.1")


class TestConformance(DriverConformance):
    guests_let_go = False  # a boot sector knows no hot plug: test_tiny_linux.py has a guest that does
    lives_in_process = True  # libvirt is embedded; below is a test of its own that kills

    @pytest.fixture
    def driver(self, real_driver: LibvirtDriver, monkeypatch: pytest.MonkeyPatch) -> ComputeDriver:
        monkeypatch.setattr(attachments, "DETACH_SECONDS", 0.5)
        return real_driver

    @pytest.fixture
    def other(self, real_driver: LibvirtDriver, tmp_path: Path) -> Iterator[ComputeDriver]:
        """A second host on the same hypervisor, with a folder of its own: neither has the other's guests.

        Guests that come lose their networks, and those that go get them.
        """
        uri = embedded.prepare(state_dir(real_driver) / "libvirt")
        options = {"state_dir": str(tmp_path / "second"), "uri": uri, "guest_network": "none", **QUICK}
        driver = LibvirtDriver("real-2", options, SHELF.open)
        driver.start()
        yield driver
        driver.stop()

    @pytest.fixture
    def make_guest(self) -> MakeGuest:
        return lambda uuid: guest_of(uuid, IMAGE, ports=(PORT,))


def test_a_guest_is_a_process_with_a_disk_and_a_console_and_destroy_removes_all(driver: LibvirtDriver) -> None:
    guest = guest_of(str(uuid4()), IMAGE, ports=(PORT,))
    driver.spawn(guest, RecordedProgress())
    assert len(qemu_of(guest.instance_uuid)) == 1
    text = wait_for(driver, guest.instance_uuid, TICK)
    assert text.startswith(BANNER)
    assert driver.console_log(guest.instance_uuid, len(BANNER)).startswith(TICK)
    assert {path.name for path in files_of(driver, guest.instance_uuid)} >= {
        guest.instance_uuid,
        f"{guest.instance_uuid}.log",
    }
    driver.destroy(guest.instance_uuid)
    assert qemu_of(guest.instance_uuid) == []
    assert files_of(driver, guest.instance_uuid) == []
    assert driver.guests() == []


def test_the_report_describes_this_machine(driver: LibvirtDriver) -> None:
    report, found = driver.report(), probe()
    assert found.is_usable, found.reason
    assert report.node == "real-1"
    assert report.hypervisor_type == "QEMU"
    assert report.hypervisor_version > 5_000_000
    assert report.capabilities == {"virt_type": found.virt_type, "guest_network": "qemu"}
    assert ("x86_64", "qemu", "hvm") in report.supported_instances
    assert (("x86_64", "kvm", "hvm") in report.supported_instances) == (found.virt_type == "kvm")
    assert report.inventory["VCPU"].total == len(os.sched_getaffinity(0))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    assert report.inventory["MEMORY_MB"].total == pages
    assert report.cpu_info["arch"] == "x86_64"
    assert "COMPUTE_NODE" in report.traits
    assert not LibvirtDriver.is_simulated


def test_an_image_is_fetched_once(driver: LibvirtDriver) -> None:
    data = boot_disk() + b"\1" * 512
    image = image_of(str(uuid4()), data)
    SHELF.images[image.image_id] = data
    for _ in range(2):
        driver.spawn(guest_of(str(uuid4()), image), RecordedProgress())
    assert SHELF.opened[image.image_id] == 1
    assert (state_dir(driver) / "images" / image.image_id).read_bytes() == data


def test_the_disk_is_as_large_as_the_flavor_says_and_lies_on_the_image(driver: LibvirtDriver) -> None:
    flavor = FlavorSpec("9", "wide", vcpus=1, memory_mb=64, root_gb=3, ephemeral_gb=1, swap_mb=64)
    guest = guest_of(str(uuid4()), IMAGE, flavor=flavor)
    driver.spawn(guest, RecordedProgress())
    directory = state_dir(driver) / "instances" / guest.instance_uuid
    sizes = {path.name: _virtual_size(path) for path in directory.glob("*.qcow2")}
    assert sizes == {"root.qcow2": 3 << 30, "ephemeral.qcow2": 1 << 30, "swap.qcow2": 64 << 20}
    assert (directory / "root.qcow2").stat().st_size < 1 << 20
    wait_for(driver, guest.instance_uuid, TICK)


def _virtual_size(path: Path) -> int:
    shown = subprocess.run(["qemu-img", "info", "-U", str(path)], capture_output=True, text=True, check=True).stdout
    found = re.search(r"virtual size: .* \((\d+) bytes\)", shown)
    assert found
    return int(found[1])


def _qcow2(tmp_path: Path, *words: str) -> bytes:
    path = tmp_path / "image.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *words, str(path), "1M"], check=True)
    return path.read_bytes()


def test_images_that_no_host_can_start_abort_the_build_and_leave_nothing(driver: LibvirtDriver, tmp_path: Path) -> None:
    secret = tmp_path / "secret.raw"
    secret.write_bytes(b"not yours" * 1000)
    cases: list[tuple[bytes | None, ImageSpec, str]] = [
        (None, image_of(str(uuid4()), b"x"), "has no data"),
        (DISK, image_of(str(uuid4()), DISK, checksum="0" * 32), "do not have the image's checksum"),
        (DISK, image_of(str(uuid4()), DISK, size=5), "has 1048576 bytes of data instead of 5"),
        (DISK, image_of(str(uuid4()), DISK, disk_format="vmdk"), "has the disk format vmdk; only raw"),
        (DISK, image_of(str(uuid4()), DISK, disk_format="qcow2"), "are not qcow2"),
        (data := _qcow2(tmp_path, "-F", "raw", "-b", str(secret)), image_of(str(uuid4()), data), ""),
        (data, image_of(str(uuid4()), data, disk_format="qcow2"), "refers to another file"),
        (DISK, ImageSpec(image_id="../../etc/passwd", disk_format="raw"), "has no usable id"),
        (DISK, ImageSpec(), "neither an image nor a kernel"),
    ]
    for data_of_image, image, complaint in cases:
        if data_of_image is not None:
            SHELF.images[image.image_id] = data_of_image
        guest = guest_of(str(uuid4()), image)
        if not complaint:  # taken as raw bytes, a reference means nothing: the guest sees it, QEMU does not follow it
            driver.spawn(guest, RecordedProgress())
            driver.destroy(guest.instance_uuid)
            continue
        with pytest.raises(BuildAborted, match=re.escape(complaint)):
            driver.spawn(guest, RecordedProgress())
        assert driver.guests() == []
        assert files_of(driver, guest.instance_uuid) == []
    assert list((state_dir(driver) / "images").glob("*.part")) == []


def test_a_data_file_outside_of_the_image_is_refused(driver: LibvirtDriver, tmp_path: Path) -> None:
    data = _qcow2(tmp_path, "-o", f"data_file={tmp_path / 'elsewhere.raw'},data_file_raw=on")
    image = image_of(str(uuid4()), data, disk_format="qcow2")
    SHELF.images[image.image_id] = data
    with pytest.raises(BuildAborted, match="refers to another file"):
        driver.spawn(guest_of(str(uuid4()), image), RecordedProgress())
    assert driver.guests() == []


def test_an_encrypted_image_is_refused(driver: LibvirtDriver, tmp_path: Path) -> None:
    data = bytearray(_qcow2(tmp_path))
    # crypt_method 2, LUKS. Having qemu-img encrypt would fail at times: it gauges the processor first.
    data[32:36] = (2).to_bytes(4, "big")
    image = image_of(str(uuid4()), bytes(data), disk_format="qcow2")
    SHELF.images[image.image_id] = bytes(data)
    with pytest.raises(BuildAborted, match="is encrypted"):
        driver.spawn(guest_of(str(uuid4()), image), RecordedProgress())
    assert driver.guests() == []


def test_an_image_larger_than_the_flavor_is_refused(driver: LibvirtDriver, tmp_path: Path) -> None:
    path = tmp_path / "large.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "2500M"], check=True)
    image = image_of(str(uuid4()), path.read_bytes(), disk_format="qcow2")
    SHELF.images[image.image_id] = path.read_bytes()
    with pytest.raises(BuildAborted, match=re.escape("needs a disk of 3 GB; the flavor has 1 GB.")):
        driver.spawn(guest_of(str(uuid4()), image), RecordedProgress())
    assert driver.guests() == []


def test_errors_of_the_hypervisor_are_driver_errors_without_paths(driver: LibvirtDriver) -> None:
    guest = guest_of(str(uuid4()), IMAGE, flavor=FlavorSpec("9", "odd", vcpus=9999, memory_mb=64, root_gb=1))
    with pytest.raises(DriverError) as refused:
        driver.spawn(guest, RecordedProgress())
    assert not isinstance(refused.value, BuildAborted)
    assert refused.value.message.startswith("The hypervisor could not start the guest: ")
    assert str(state_dir(driver)) not in refused.value.message
    assert driver.guests() == []
    assert files_of(driver, guest.instance_uuid) == []


def test_a_build_interrupted_at_any_place_leaves_nothing(driver: LibvirtDriver) -> None:
    counting = RecordedProgress()
    driver.spawn(guest_of(str(uuid4()), IMAGE), counting)
    (first,) = driver.guests()
    for stop_at in range(1, len(counting.calls) + 1):
        guest = guest_of(str(uuid4()), IMAGE)
        with pytest.raises(StaleToken):
            driver.spawn(guest, RecordedProgress(stop_at))
        assert driver.guests() == [first]
        assert files_of(driver, guest.instance_uuid) == []


def test_remains_of_a_killed_build_are_listed_replaced_and_destroyed(driver: LibvirtDriver) -> None:
    begun, dropped = guest_of(str(uuid4()), IMAGE), str(uuid4())
    for uuid in (begun.instance_uuid, dropped):
        directory = state_dir(driver) / "instances" / uuid
        directory.mkdir()
        (directory / "root.qcow2").write_bytes(b"half")
    assert {found.power_state for found in driver.guests()} == {PowerState.NOSTATE}
    driver.spawn(begun, RecordedProgress())
    wait_for(driver, begun.instance_uuid, TICK)
    driver.destroy(dropped)
    assert driver.guests() == [GuestInfo(begun.instance_uuid, PowerState.RUNNING)]
    assert files_of(driver, dropped) == []


def test_a_guest_whose_process_is_killed_has_crashed_and_can_be_built_again(driver: LibvirtDriver) -> None:
    guest = guest_of(str(uuid4()), IMAGE)
    driver.spawn(guest, RecordedProgress())
    (process,) = qemu_of(guest.instance_uuid)
    os.kill(process, signal.SIGKILL)
    crashed = [GuestInfo(guest.instance_uuid, PowerState.CRASHED)]
    wait_until("its death is seen", lambda: driver.guests() == crashed, SECONDS, details=driver.guests)
    driver.spawn(guest, RecordedProgress())
    assert driver.guests() == [GuestInfo(guest.instance_uuid, PowerState.RUNNING)]
    assert qemu_of(guest.instance_uuid) != [process]


def test_guests_survive_kill_9_of_the_process_and_long_paths_are_no_hindrance(tmp_path: Path) -> None:
    """Another process, as this one has its folder open already; its folder's path is longer than any socket's."""
    state, uuid = tmp_path / ("long-" * 20) / "state", str(uuid4())
    program = (
        "import os, signal, sys\n"
        "from compute_drivers.libvirt.driver import LibvirtDriver\n"
        "from tests.compute_drivers.real_guests import IMAGE, SHELF\n"
        "from tests.guests import guest_of\n"
        "driver = LibvirtDriver('real-2', {'state_dir': sys.argv[1]}, SHELF.open)\n"
        "driver.start()\n"
        "if sys.argv[3] == 'spawn':\n"
        "    driver.spawn(guest_of(sys.argv[2], IMAGE), lambda message, share: None)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "print(driver.guests())\n"
        "driver.destroy(sys.argv[2])\n"
        "print(driver.guests())\n"
        "driver.stop()\n"
    )

    def run(action: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, str(state), uuid, action],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            cwd=PROJECT,
        )

    assert run("spawn").returncode == -signal.SIGKILL
    (process,) = qemu_of(uuid)
    found = run("destroy")
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == [str([GuestInfo(uuid, PowerState.RUNNING)]), "[]"]
    assert found.stderr == ""
    assert process not in qemu_of(uuid)


def test_names_with_any_characters_start(driver: LibvirtDriver) -> None:
    guest = guest_of(str(uuid4()), IMAGE, name="<&\"'\x00\x1f\ud800 ,id=evil ü", hostname="web,1;<b>")
    driver.spawn(guest, RecordedProgress())
    wait_for(driver, guest.instance_uuid, TICK)


def test_the_console_shows_whether_an_action_booted_the_guest(
    driver: LibvirtDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = guest_of(str(uuid4()), IMAGE)
    uuid = guest.instance_uuid
    driver.spawn(guest, RecordedProgress())
    wait_for(driver, uuid, TICK)
    driver.pause(uuid)
    still = driver.console_log(uuid, 0)
    assert_stays("a paused guest writes nothing", lambda: driver.console_log(uuid, 0) == still, 1.5)
    driver.unpause(uuid)
    wait_for(driver, uuid, TICK, after=len(still))
    driver.suspend(uuid)
    assert qemu_of(uuid) == []
    still = driver.console_log(uuid, 0)
    driver.resume(guest)
    assert wait_for(driver, uuid, TICK, after=len(still)).count(BANNER) == 1
    clock = MovedClock()
    monkeypatch.setattr(power, "time", clock)
    driver.power_off(uuid, 60.0)  # it does not know what a power button is
    assert clock.now >= 60.0
    assert qemu_of(uuid) == []
    driver.power_on(guest)
    wait_for(driver, uuid, BANNER, after=len(still))
    driver.reboot(guest, is_hard=False, timeout_seconds=0.2)
    (process,) = qemu_of(uuid)
    wait_until("it boots again", lambda: driver.console_log(uuid, 0).count(BANNER) >= 3, SECONDS)
    assert driver.console_log(uuid, 0).count(BANNER) == 3
    assert qemu_of(uuid) == [process]  # reset, not started anew


@pytest.mark.parametrize("state", ["running", "paused", "off"])
def test_a_snapshot_is_whole_and_boots(driver: LibvirtDriver, tmp_path: Path, state: str) -> None:
    guest, shelf = guest_of(str(uuid4()), IMAGE), SnapshotImageStore()
    driver.spawn(guest, RecordedProgress())
    if state == "paused":
        driver.pause(guest.instance_uuid)
    if state == "off":
        driver.power_off(guest.instance_uuid, 0.0)
    driver.snapshot(guest.instance_uuid, "copy", shelf.store, RecordedProgress())
    disk_format, data = shelf.images["copy"]
    assert disk_format == "qcow2"
    image = image_of(str(uuid4()), data, disk_format=disk_format)  # what refers to another file would be refused
    SHELF.images[image.image_id] = data
    folder = state_dir(driver) / "instances" / guest.instance_uuid
    assert [path.name for path in folder.glob("*.qcow2")] == ["root.qcow2"]
    driver.destroy(guest.instance_uuid)
    again = guest_of(str(uuid4()), image)
    driver.spawn(again, RecordedProgress())
    wait_for(driver, again.instance_uuid, TICK)


def test_a_snapshot_that_was_cut_off_by_a_kill_is_taken_again(driver: LibvirtDriver) -> None:
    guest, shelf = guest_of(str(uuid4()), IMAGE), SnapshotImageStore()
    driver.spawn(guest, RecordedProgress())
    root = state_dir(driver) / "instances" / guest.instance_uuid / "root.qcow2"
    with driver.node.guest(guest.instance_uuid, "begin a copy") as found:
        found.begin_copy(root, root.with_name("left.qcow2"))
    driver.snapshot(guest.instance_uuid, "copy", shelf.store, RecordedProgress())
    assert "copy" in shelf.images


def test_a_guest_boots_from_a_volume_with_a_second_one_attached(driver: LibvirtDriver, tmp_path: Path) -> None:
    paths = [tmp_path / "boot.raw", tmp_path / "data.raw"]
    paths[0].write_bytes(DISK)
    paths[1].write_bytes(bytes(1 << 20))
    volumes = (
        VolumeConnection(str(uuid4()), str(paths[1]), 1, device_name="/dev/vdb"),
        VolumeConnection(str(uuid4()), str(paths[0]), 1, device_name="/dev/vda", boot_index=0),
    )
    flavor = FlavorSpec("9", "bare", vcpus=1, memory_mb=64)
    guest = guest_of(str(uuid4()), ImageSpec(), volumes=volumes, flavor=flavor)
    driver.spawn(guest, RecordedProgress())
    wait_for(driver, guest.instance_uuid, TICK)
    with pytest.raises(DriverError, match="no disk of its own"):
        driver.snapshot(guest.instance_uuid, "copy", SnapshotImageStore().store, RecordedProgress())
    driver.destroy(guest.instance_uuid)
    assert paths[0].read_bytes() == DISK


def test_an_image_for_a_rebuild_that_cannot_be_used_leaves_the_guest_as_it_is(driver: LibvirtDriver) -> None:
    guest = guest_of(str(uuid4()), IMAGE)
    driver.spawn(guest, RecordedProgress())
    (process,) = qemu_of(guest.instance_uuid)
    SHELF.images["broken"] = b"no qcow2"
    broken = image_of("broken", SHELF.images["broken"], disk_format="qcow2")
    for rebuild in (
        lambda image: driver.rebuild(guest_of(guest.instance_uuid, image), RecordedProgress(), is_running=True),
        lambda image: driver.rescue(guest_of(guest.instance_uuid, image), "", RecordedProgress()),
    ):
        with pytest.raises(BuildAborted, match="are not qcow2"):
            rebuild(broken)
    assert qemu_of(guest.instance_uuid) == [process]
    assert driver.guests() == [GuestInfo(guest.instance_uuid, PowerState.RUNNING)]
