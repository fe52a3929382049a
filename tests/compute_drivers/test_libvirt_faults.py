"""Errors of real guests: one clear sentence, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from compute_drivers.libvirt import capability, embedded
from compute_drivers.libvirt.driver import LibvirtDriver
from compute_drivers.libvirt.spawn import GuestBuilder
from conductor.conformance.driver import RecordedProgress
from conductor.core.compute_driver import GuestInfo
from conductor.core.errors import BuildAborted, DriverError, Invalid
from conductor.core.request_spec import FlavorSpec
from conductor.core.states import PowerState
from tests.compute_drivers.libvirtd import Daemon
from tests.compute_drivers.real_guests import IMAGE, QUICK, SECONDS, SHELF, files_of, state_dir, wait_for
from tests.guests import TICK, guest_of, image_of, qemu_of
from tests.waiting import assert_stays


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Sockets have short paths."""
    with tempfile.TemporaryDirectory(prefix="nv-") as folder:
        yield Path(folder)


def beside(driver: LibvirtDriver, folder: Path, **options: object) -> LibvirtDriver:
    """Another host on the hypervisor of this process, with a folder of its own."""
    uri = embedded.prepare(state_dir(driver) / "libvirt")
    host = LibvirtDriver("real-3", {"state_dir": str(folder), "uri": uri, **QUICK, **options}, SHELF.open)
    host.start()
    return host


class TestAFullDisk:
    @pytest.fixture
    def full(self, driver: LibvirtDriver, short_folder: Path) -> Iterator[LibvirtDriver]:
        """A host whose disk has three megabytes."""
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(short_folder)], check=True)
        host = beside(driver, short_folder)
        yield host
        for guest in host.guests():
            host.destroy(guest.instance_uuid)
        host.stop()
        subprocess.run(["umount", str(short_folder)], check=True)

    def test_an_image_that_does_not_fit_is_this_host_s_fault_and_leaves_nothing(self, full: LibvirtDriver) -> None:
        data = os.urandom(4 << 20)
        large = image_of(str(uuid4()), data)
        SHELF.images[large.image_id] = data
        guest = guest_of(str(uuid4()), large)
        with pytest.raises(DriverError, match="could not be kept on this host: No space left on device") as refused:
            full.spawn(guest, RecordedProgress())
        assert not isinstance(refused.value, BuildAborted)
        assert full.guests() == []
        assert files_of(full, guest.instance_uuid) == []
        assert list((state_dir(full) / "images").iterdir()) == []

    def test_a_disk_that_cannot_be_made_leaves_nothing(self, full: LibvirtDriver) -> None:
        full.spawn(guest_of(str(uuid4()), IMAGE), RecordedProgress())  # the image is there now
        (first,) = full.guests()
        (state_dir(full) / "ballast").write_bytes(b"x" * (_free(state_dir(full)) - 4096))
        guest = guest_of(str(uuid4()), IMAGE)
        with pytest.raises(DriverError, match=r"The guest's disk could not be made|config drive"):
            full.spawn(guest, RecordedProgress())
        assert full.guests() == [first]
        assert files_of(full, guest.instance_uuid) == []
        (state_dir(full) / "ballast").unlink()
        full.spawn(guest, RecordedProgress())


def _free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_bsize


def test_a_kernel_that_is_not_there_aborts_the_build(driver: LibvirtDriver) -> None:
    missing = image_of(str(uuid4()), b"never stored")
    for part in ("kernel", "ramdisk"):
        parts = {"kernel": IMAGE, part: missing}
        guest = guest_of(str(uuid4()), IMAGE, **parts)
        with pytest.raises(BuildAborted, match=f"Image {missing.image_id} has no data"):
            driver.spawn(guest, RecordedProgress())
        assert driver.guests() == []
        assert files_of(driver, guest.instance_uuid) == []


def test_unsupported_flavors_are_refused_before_an_image_is_fetched(driver: LibvirtDriver) -> None:
    image = image_of(str(uuid4()), b"never fetched")
    flavor = FlavorSpec("9", "safe", vcpus=1, memory_mb=64, root_gb=1, extra_specs={"hw:tpm_version": "2.0"})
    guest = guest_of(str(uuid4()), image, flavor=flavor)
    with pytest.raises(DriverError, match="a TPM, for which"):
        driver.spawn(guest, RecordedProgress())
    assert image.image_id not in SHELF.opened
    assert files_of(driver, guest.instance_uuid) == []


def test_a_disk_never_shrinks_and_the_guest_comes_back(driver: LibvirtDriver) -> None:
    wide = FlavorSpec("8", "wide", vcpus=1, memory_mb=64, root_gb=3)
    guest = guest_of(str(uuid4()), IMAGE, flavor=wide)
    driver.spawn(guest, RecordedProgress())
    smaller = guest_of(guest.instance_uuid, IMAGE)
    disks = driver.migrate_out(guest, driver.host, RecordedProgress())
    with pytest.raises(BuildAborted, match="disk of 3 GB does not go into 1 GB"):
        driver.migrate_in(smaller, disks, RecordedProgress(), is_running=True)
    assert driver.guests() == []
    driver.revert_migration(guest, is_running=True)
    wait_for(driver, guest.instance_uuid, TICK)


def test_an_interrupted_revert_continues(driver: LibvirtDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    guest = guest_of(str(uuid4()), IMAGE)
    driver.spawn(guest, RecordedProgress())
    error = wait_for(driver, guest.instance_uuid, TICK)
    driver.migrate_out(guest, driver.host, RecordedProgress())
    with monkeypatch.context() as cut:
        cut.setattr(GuestBuilder, "domain_xml", _die)
        with pytest.raises(KeyboardInterrupt):
            driver.revert_migration(guest, is_running=True)
    driver.revert_migration(guest, is_running=True)
    assert driver.guests() == [GuestInfo(guest.instance_uuid, PowerState.RUNNING)]
    assert driver.console_log(guest.instance_uuid, 0).startswith(error)
    folder = state_dir(driver) / "instances" / guest.instance_uuid
    assert {path.name for path in folder.iterdir()} == {"root.qcow2", "config.iso"}


def _die(*_: object) -> str:
    raise KeyboardInterrupt


def test_two_hosts_of_one_hypervisor_leave_each_other_s_guests_alone(driver: LibvirtDriver, short_folder: Path) -> None:
    guest, other = guest_of(str(uuid4()), IMAGE), beside(driver, short_folder)
    driver.spawn(guest, RecordedProgress())
    assert other.guests() == []
    other.destroy(guest.instance_uuid)
    for build in (other.check_build, lambda guest: other.spawn(guest, RecordedProgress())):
        with pytest.raises(DriverError, match="Another host of this hypervisor has the guest"):
            build(guest)
    assert driver.guests() == [GuestInfo(guest.instance_uuid, PowerState.RUNNING)]
    other.stop()


def test_a_guest_that_ends_by_itself_is_reported(driver: LibvirtDriver) -> None:
    guest, changed = guest_of(str(uuid4()), IMAGE), threading.Event()
    driver.spawn(guest, RecordedProgress())
    driver.watch(changed.set)
    changed.clear()
    (process,) = qemu_of(guest.instance_uuid)
    os.kill(process, signal.SIGKILL)
    assert changed.wait(SECONDS)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"pinned_cpus": "999"}, "libvirt.pinned_cpus: this machine has no processors 999"),
        ({"pci_devices": "all"}, "libvirt.pci_devices: 'all' is neither"),
        ({"image_cache_gb": -1}, "libvirt.image_cache_gb: -1 is less than 0"),
        ({"migration_uri": "qemu+tls://b/system"}, "libvirt.migration_uri: other hosts cannot reach"),
        ({"migration_address": "b:49152"}, "libvirt.migration_address: 'b:49152' is neither unix nor"),
        ({"migration_address": "unix", "migration_transport": "tls"}, "libvirt.migration_transport: tls needs"),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(tmp_path: Path, options: dict[str, object], complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        LibvirtDriver("real-4", {"state_dir": str(tmp_path), **options}, SHELF.open)
    assert list(tmp_path.iterdir()) == []


class TestADaemon:
    def test_a_missing_hypervisor_stops_the_start(self, tmp_path: Path) -> None:
        options = {"state_dir": str(tmp_path), "uri": f"qemu+unix:///system?socket={tmp_path}/nobody"}
        host = LibvirtDriver("real-5", options, SHELF.open)
        with pytest.raises(DriverError, match="The hypervisor could not be opened: Failed to connect socket"):
            host.start()

    def test_a_hypervisor_that_dies_during_a_build_is_reported_and_guests_are_found_afterwards(
        self, short_folder: Path
    ) -> None:
        daemon = Daemon(short_folder / "d")
        daemon.start()
        host = LibvirtDriver("real-6", {"state_dir": str(short_folder / "s"), "uri": daemon.uri, **QUICK}, SHELF.open)
        host.start()
        guest, late = guest_of(str(uuid4()), IMAGE), guest_of(str(uuid4()), IMAGE)
        try:
            host.spawn(guest, RecordedProgress())
            (process,) = qemu_of(guest.instance_uuid)

            def dying(message: str, share: float | None = None, figures: object = None, /) -> None:
                if message == "starting the guest":  # its disks are there by now
                    daemon.kill_9()

            for fails in (lambda: host.spawn(late, dying), lambda: host.power_off(guest.instance_uuid, 0.0)):
                with pytest.raises(DriverError, match=r"^The hypervisor could not [a-z ]+: "):
                    fails()
            daemon.start()
            begun = GuestInfo(late.instance_uuid, PowerState.NOSTATE)
            assert sorted([begun, GuestInfo(guest.instance_uuid, PowerState.RUNNING)], key=str) == host.guests()
            assert qemu_of(guest.instance_uuid) == [process]
            host.destroy(late.instance_uuid)
            assert files_of(host, late.instance_uuid) == []
            host.spawn(late, RecordedProgress())
            wait_for(host, late.instance_uuid, TICK)
        finally:
            for uuid in (guest.instance_uuid, late.instance_uuid):
                host.destroy(uuid)
            host.stop()
            daemon.stop()
        assert qemu_of(guest.instance_uuid) == []
        assert files_of(host, guest.instance_uuid) == []


def test_events_of_a_session_end_with_it(driver: LibvirtDriver, short_folder: Path) -> None:
    other, changed = beside(driver, short_folder), threading.Event()
    other.watch(changed.set)
    other.stop()
    driver.spawn(guest_of(str(uuid4()), IMAGE), RecordedProgress())
    assert_stays("nothing is reported", lambda: not changed.is_set())


def test_a_host_that_cannot_write_memory_does_not_support_suspending(
    real_driver: LibvirtDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capability, "LIBRARY_DIRS", ())
    real_driver.stop()
    try:
        poorer = LibvirtDriver(real_driver.host, real_driver.options, real_driver.open_image)
        poorer.start()
        assert real_driver.capabilities - poorer.capabilities == {"suspend"}
        poorer.stop()
    finally:
        real_driver.start()
