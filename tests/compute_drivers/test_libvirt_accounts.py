"""Accounts of guests: what the QEMU of one guest can open of the host's, tried by processes with its uid.

An attacker starts inside of a QEMU process that a guest has taken over, so each attempt here runs with the uid, the
group and the capabilities of a real one.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from compute_drivers.libvirt.driver import LibvirtDriver
from conductor.conformance.actions import SnapshotImageStore
from conductor.conformance.driver import RecordedProgress
from conductor.core.compute_driver import GuestSpec, VolumeConnection
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import DriverError
from conductor.core.guest_uids import COUNT, DEFAULT_BASE
from tests.compute_drivers.real_guests import DISK, IMAGE, state_dir, wait_for
from tests.guests import TICK, guest_of, qemu_of

SECRET = b"the keys of the whole cloud"
StepAttempt = tuple[str, Path]


def facts_of(guest: GuestSpec) -> dict[str, list[str]]:
    """Return the kernel's status of the guest's QEMU."""
    (process,) = qemu_of(guest.instance_uuid)
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {name: text.split() for name, _, text in (line.partition(":") for line in lines)}


def uid_of(guest: GuestSpec) -> int:
    (uid,) = set(facts_of(guest)["Uid"])
    return int(uid)


def opened_by(uid: int, *tries: StepAttempt) -> set[StepAttempt]:
    """Return the attempts that succeed for a process with the account of a guest."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            os.setgroups([])
            os.setresgid(DEFAULT_BASE, DEFAULT_BASE, DEFAULT_BASE)
            os.setresuid(uid, uid, uid)
            os.write(writer, bytes(can_open(*one) for one in tries))
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as text:
        answers = text.read()
    assert len(answers) == len(tries)
    return {one for one, answer in zip(tries, answers, strict=True) if answer}


def can_open(how: str, path: Path) -> bool:
    try:
        if how == "list":
            os.listdir(path)
        elif how == "connect":
            socket.socket(socket.AF_UNIX).connect(str(path))
        else:
            os.open(path, os.O_RDWR if how == "write" else os.O_RDONLY)
    except OSError:
        return False
    return True


def folder_of(driver: LibvirtDriver, guest: GuestSpec) -> Path:
    return state_dir(driver) / "instances" / guest.instance_uuid


def disk_of(driver: LibvirtDriver, guest: GuestSpec) -> Path:
    return folder_of(driver, guest) / "root.qcow2"


def started(driver: LibvirtDriver, **values: object) -> GuestSpec:
    guest = guest_of(str(uuid4()), IMAGE, **values)
    driver.spawn(guest, RecordedProgress())
    wait_for(driver, guest.instance_uuid, TICK)
    return guest


@pytest.fixture
def secret(driver: LibvirtDriver) -> Iterator[Path]:
    """A database of the cloud, in the parent folder of the driver's."""
    path = state_dir(driver).parent / "api.sqlite3"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    yield path
    path.unlink()


@pytest.fixture
def volume(driver: LibvirtDriver) -> Iterator[VolumeConnection]:
    path = state_dir(driver).parent / "volumes" / f"{uuid4()}.raw"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(DISK)
    path.chmod(0o600)
    yield VolumeConnection(str(uuid4()), str(path), 1, serial="s-1")
    path.unlink()


def test_each_guest_runs_under_a_uid_of_its_own_that_opens_its_files_and_no_others(
    driver: LibvirtDriver, secret: Path
) -> None:
    one, other = started(driver), started(driver)
    uids = {uid_of(one), uid_of(other)}
    assert len(uids) == 2
    for guest in (one, other):
        facts = facts_of(guest)
        assert DEFAULT_BASE < uid_of(guest) <= DEFAULT_BASE + COUNT
        assert (set(facts["Gid"]), facts["Groups"]) == ({str(DEFAULT_BASE)}, [str(DEFAULT_BASE)])
        assert (facts["CapEff"], facts["CapPrm"], facts["NoNewPrivs"]) == (["0" * 16], ["0" * 16], ["1"])
        assert disk_of(driver, guest).stat().st_uid == uid_of(guest)
    image, lines = state_dir(driver) / "images" / IMAGE.image_id, state_dir(driver) / "lines"
    own = {("write", disk_of(driver, one)), ("read", image), ("connect", lines / one.instance_uuid / "vnc")}
    hypervisor = (
        path for path in (state_dir(driver) / "libvirt").rglob("*") if path.is_file() and path.suffix != ".pid"
    )
    strange = [
        *(("read", path) for path in folder_of(driver, other).iterdir()),
        *(("list", folder) for folder in state_dir(driver).iterdir() if folder.is_dir()),
        *(("read", path) for path in hypervisor if path.stat().st_uid != uid_of(one)),
        *(("connect", lines / other.instance_uuid / name) for name in ("tty", "vnc")),
        *(("read", path) for path in state_dir(driver).glob("accounts/*")),
        *(("read", path) for path in state_dir(driver).glob("consoles/*")),
        ("write", image),
        ("list", folder_of(driver, one)),
        ("list", secret.parent),
        ("read", secret),
    ]
    assert len(strange) > 12
    assert opened_by(uid_of(one), *own, *strange) == own


def test_the_uid_is_the_guests_until_it_is_destroyed(driver: LibvirtDriver) -> None:
    guest = started(driver)
    uuid, uid = guest.instance_uuid, uid_of(guest)
    driver.suspend(uuid)
    driver.resume(guest)
    assert uid_of(guest) == uid
    driver.power_off(uuid, 0.0)
    assert disk_of(driver, guest).stat().st_uid == 0  # no guest uses it
    driver.power_on(guest)
    assert uid_of(guest) == uid
    driver.rebuild(guest, RecordedProgress(), is_running=True)
    assert (uid_of(guest), disk_of(driver, guest).stat().st_uid) == (uid, uid)
    driver.rescue(guest, "secret", RecordedProgress())
    assert uid_of(guest) == uid
    assert (folder_of(driver, guest) / "rescue.qcow2").stat().st_uid == uid
    driver.unrescue(guest, is_running=True)
    assert uid_of(guest) == uid
    notes = state_dir(driver) / "accounts"
    assert [path.name for path in notes.iterdir()] == [str(uid)]
    driver.destroy(uuid)
    assert list(notes.iterdir()) == []
    assert list((state_dir(driver) / "lines").iterdir()) == []


def test_a_volume_stays_its_owners_and_is_open_to_those_that_have_it(
    driver: LibvirtDriver, volume: VolumeConnection
) -> None:
    path, shared = Path(volume.path), replace(volume, is_shared=True)
    one, other = started(driver), started(driver)
    driver.attach_volume(one.instance_uuid, shared)
    tries = (("write", path),)
    assert opened_by(uid_of(one), *tries) == set(tries)
    assert opened_by(uid_of(other), *tries) == set()
    driver.attach_volume(other.instance_uuid, shared)
    assert opened_by(uid_of(one), *tries) == opened_by(uid_of(other), *tries) == set(tries)
    assert path.stat().st_uid == 0
    with_it = guest_of(one.instance_uuid, IMAGE, volumes=(shared,))
    driver.reboot(with_it, is_hard=True, timeout_seconds=0.0)
    assert opened_by(uid_of(one), *tries) == set(tries)
    gone = uid_of(other)
    driver.destroy(other.instance_uuid)
    assert opened_by(gone, *tries) == set()
    driver.reboot(one, is_hard=True, timeout_seconds=0.0)  # it was detached meanwhile
    assert opened_by(uid_of(one), *tries) == set()
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode), path.read_bytes()) == (0, 0o600, DISK)


def test_a_volume_that_is_read_only_is_only_read(driver: LibvirtDriver, volume: VolumeConnection) -> None:
    path = Path(volume.path)
    guest = started(driver, volumes=(replace(volume, is_read_only=True),))
    assert opened_by(uid_of(guest), ("read", path), ("write", path)) == {("read", path)}


def test_a_disk_whose_guest_names_a_file_of_the_host_as_backing_file_is_never_opened(
    driver: LibvirtDriver, secret: Path
) -> None:
    guest, shelf = started(driver), SnapshotImageStore()
    driver.power_off(guest.instance_uuid, 0.0)
    disk = disk_of(driver, guest)
    subprocess.run(["qemu-img", "rebase", "-u", "-f", "qcow2", "-F", "raw", "-b", str(secret), str(disk)], check=True)
    with pytest.raises(DriverError, match="no image of this host"):
        driver.snapshot(guest.instance_uuid, "stolen", shelf.store, RecordedProgress())
    with pytest.raises(DriverError, match="no image of this host"):
        driver.power_on(guest)
    assert (shelf.images, qemu_of(guest.instance_uuid)) == ({}, [])
    found = secret.stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode), secret.read_bytes()) == (0, 0o600, SECRET)


@pytest.mark.parametrize("kind", [ConsoleKind.SERIAL, ConsoleKind.VNC])
def test_a_console_that_its_guest_has_put_on_a_socket_of_the_hosts_is_not_joined(
    driver: LibvirtDriver, tmp_path: Path, kind: ConsoleKind
) -> None:
    guest = started(driver)
    path = state_dir(driver) / "lines" / guest.instance_uuid / {"serial": "tty", "vnc": "vnc"}[kind]
    with socket.socket(socket.AF_UNIX) as host_socket:
        place = state_dir(driver) / "root.sock"
        host_socket.bind(str(place))
        host_socket.listen()
        host_socket.setblocking(False)
        try:
            path.unlink()
            path.symlink_to(place)
            with pytest.raises(DriverError, match="no such console"):
                driver.open_console(guest.instance_uuid, kind)
            path.unlink()
            os.link(place, path)
            with pytest.raises(DriverError, match="no such console"):
                driver.open_console(guest.instance_uuid, kind)
            with pytest.raises(BlockingIOError):  # no connection came
                host_socket.accept()
        finally:
            place.unlink()
