"""Uids of guests: each is in use once, also among hosts that share a folder, and files are opened to it and closed."""

from __future__ import annotations

import os
import socket
import stat
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from compute_drivers.libvirt import disks, guest_socket
from compute_drivers.libvirt.accounts import GuestAccounts
from compute_drivers.libvirt.driver import LibvirtDriver
from conductor.core import guest_uids, posix_acl
from conductor.core.errors import DriverError
from conductor.core.posix_acl import READ, SEARCH, WRITE
from portal import private_files
from portal.environment import load

BASE = guest_uids.DEFAULT_BASE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "accounts"


def accounts_of(folder: Path, host: str = "a", base: int = BASE) -> GuestAccounts:
    made = GuestAccounts(folder, host, base)
    made.prepare()
    return made


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestUids:
    def test_a_guest_keeps_its_uid_and_gives_it_back(self, folder: Path) -> None:
        accounts, guest = accounts_of(folder), str(uuid4())
        account = accounts.account_of(guest)
        assert BASE < account.uid <= BASE + guest_uids.COUNT
        assert account.gid == BASE
        assert accounts.account_of(guest) == accounts_of(folder).account_of(guest) == account
        accounts.release(guest)
        accounts.release(guest)
        assert list(folder.iterdir()) == []

    def test_no_two_guests_share_a_uid_even_from_the_same_starting_point(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("compute_drivers.libvirt.accounts.COUNT", 3)
        hosts = [accounts_of(folder, name) for name in ("a", "b")]
        guests = [str(uuid4()) for _ in range(3)]
        found = {hosts[number % 2].account_of(guest).uid for number, guest in enumerate(guests)}
        assert found == {BASE + 1, BASE + 2, BASE + 3}
        with pytest.raises(DriverError, match="no free account"):
            hosts[0].account_of(str(uuid4()))
        hosts[0].release(guests[1])  # the other host has it
        assert len(list(folder.iterdir())) == 3
        hosts[1].release(guests[1])
        assert hosts[0].account_of(str(uuid4())).uid in found

    def test_hosts_that_share_disks_have_one_each_for_the_same_guest(self, folder: Path) -> None:
        guest = str(uuid4())
        one, other = accounts_of(folder, "a"), accounts_of(folder, "b")
        assert one.account_of(guest).uid != other.account_of(guest).uid
        kept = other.account_of(guest)
        one.release(guest)
        assert other.account_of(guest) == kept

    def test_many_at_once(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("compute_drivers.libvirt.accounts.COUNT", 16)
        hosts = [accounts_of(folder, name) for name in ("a", "b")]
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda host=host: found.append(host.account_of(str(uuid4())).uid))
            for host in hosts * 8
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == list(range(BASE + 1, BASE + 17))

    def test_only_uids_of_a_killed_process_are_released(self, folder: Path) -> None:
        accounts, other = accounts_of(folder, "a"), accounts_of(folder, "b")
        kept, left, foreign = (str(uuid4()) for _ in range(3))
        wanted = {accounts.account_of(kept).uid, other.account_of(foreign).uid}
        accounts.account_of(left)
        accounts.release_all_but({kept})
        assert {int(path.name) for path in folder.iterdir()} == wanted

    def test_another_base_gives_another_uid(self, folder: Path) -> None:
        guest = str(uuid4())
        accounts_of(folder).account_of(guest)
        assert 500_000 < accounts_of(folder, base=500_000).account_of(guest).uid <= 500_000 + guest_uids.COUNT

    @pytest.mark.parametrize(
        ("options", "uid", "has"),
        [({}, 0, True), ({"guest_uid_base": 0}, 0, False), ({"uri": "qemu:///system"}, 0, False), ({}, 1000, False)],
    )
    def test_only_root_with_a_hypervisor_of_its_own_gives_them_out(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], uid: int, has: bool
    ) -> None:
        monkeypatch.setattr("os.geteuid", lambda: uid)
        driver = LibvirtDriver("real-1", {"state_dir": str(tmp_path), **options}, lambda image_id: None)  # type: ignore[arg-type, return-value]
        assert (driver.node.accounts is not None) == has


class TestVolumes:
    def test_volumes_are_open_to_their_guest_while_attached(self, folder: Path, tmp_path: Path) -> None:
        accounts, guest = accounts_of(folder), str(uuid4())
        uid = posix_acl.user(accounts.account_of(guest).uid)
        first, second = tmp_path / "first.raw", tmp_path / "second.raw"
        for path in (first, second):
            path.touch(0o600)
        accounts.grant_volumes(guest, {str(first): READ | WRITE, str(second): READ})
        assert posix_acl.named(first) == {uid: READ | WRITE}
        assert posix_acl.named(second) == {uid: READ}
        accounts.grant_volumes(guest, {str(second): READ | WRITE})
        assert (posix_acl.named(first), posix_acl.named(second)) == ({}, {uid: READ | WRITE})
        accounts.release(guest)
        assert posix_acl.named(second) == {}
        assert [mode_of(path) for path in (first, second)] == [0o600, 0o600]

    def test_access_granted_by_a_killed_process_is_revoked(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        accounts, guest, path = accounts_of(folder), str(uuid4()), tmp_path / "first.raw"
        path.touch(0o600)
        with monkeypatch.context() as patched:
            patched.setattr(accounts, "_revoke", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                accounts.grant_volumes(guest, {str(path): READ})
        assert posix_acl.named(path)
        accounts_of(folder).release_all_but(())
        assert (posix_acl.named(path), list(folder.iterdir())) == ({}, [])

    def test_releasing_a_deleted_volume_is_no_error(self, folder: Path, tmp_path: Path) -> None:
        accounts, guest, path = accounts_of(folder), str(uuid4()), tmp_path / "first.raw"
        path.touch(0o600)
        accounts.grant_volumes(guest, {str(path): READ})
        path.unlink()
        accounts.release(guest)
        assert list(folder.iterdir()) == []


class TestLists:
    def test_an_entry_takes_nothing_from_others_and_goes_without_a_trace(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o750)
        posix_acl.permit(tmp_path, posix_acl.group(BASE), SEARCH)
        posix_acl.permit(tmp_path, posix_acl.user(BASE + 1), READ | SEARCH)
        assert posix_acl.named(tmp_path) == {posix_acl.group(BASE): SEARCH, posix_acl.user(BASE + 1): READ | SEARCH}
        assert posix_acl.group_of_file(tmp_path) == READ | SEARCH
        for party in (posix_acl.group(BASE), posix_acl.user(BASE + 1), posix_acl.user(BASE + 2)):
            posix_acl.forget(tmp_path, party)
        assert (posix_acl.named(tmp_path), mode_of(tmp_path)) == ({}, 0o750)

    def test_permissions_removed_by_a_mask_do_not_return(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o750)
        posix_acl.permit(tmp_path, posix_acl.user(BASE + 1), READ | SEARCH)
        tmp_path.chmod(0o700)
        posix_acl.permit(tmp_path, posix_acl.group(BASE), SEARCH)
        assert posix_acl.named(tmp_path) == {posix_acl.group(BASE): SEARCH, posix_acl.user(BASE + 1): 0}
        assert posix_acl.group_of_file(tmp_path) == 0

    def test_a_folder_is_passed_and_not_listed(self, folder: Path, tmp_path: Path) -> None:
        inner = tmp_path / "inner"
        inner.mkdir(mode=0o700)
        accounts_of(folder).allow_traversal(inner)
        assert (mode_of(inner), posix_acl.named(inner)) == (0o710, {posix_acl.group(BASE): SEARCH})
        accounts_of(folder).allow_traversal(tmp_path / "gone")  # another process removed it


class TestWithoutLists:
    @pytest.fixture
    def bare(self, tmp_path: Path) -> Iterator[Path]:
        """A file system without access control lists, and a folder of root's in it."""
        mounted = tmp_path / "ramfs"
        mounted.mkdir()
        subprocess.run(["mount", "-t", "ramfs", "ramfs", str(mounted)], check=True)
        (mounted / "own").mkdir(mode=0o700)
        yield mounted / "own"
        subprocess.run(["umount", str(mounted)], check=True)

    def test_without_access_control_lists_a_file_of_root_is_given_to_the_group(self, folder: Path, bare: Path) -> None:
        accounts, image = accounts_of(folder), bare / "image"
        image.touch(0o600)
        for _ in range(2):
            accounts.allow_reading(image)
        assert [(path.stat().st_gid, mode_of(path)) for path in (bare, image)] == [(BASE, 0o710), (BASE, 0o640)]

    def test_a_file_that_other_accounts_can_open_is_refused_unchanged(self, folder: Path, bare: Path) -> None:
        bare.chmod(0o750)
        with pytest.raises(DriverError, match=r"own cannot be opened .*guest_uid_base"):
            accounts_of(folder).allow_traversal(bare)
        assert (bare.stat().st_gid, mode_of(bare)) == (os.getegid(), 0o750)

    def test_volumes_are_refused(self, folder: Path, bare: Path) -> None:
        volume = bare / "volume.raw"
        volume.touch(0o600)
        with pytest.raises(DriverError, match="has no access control lists"):
            accounts_of(folder).grant_volumes(str(uuid4()), {str(volume): READ | WRITE})
        assert (volume.stat().st_uid, mode_of(volume)) == (0, 0o600)


class TestTheDataFolder:
    @pytest.fixture
    def data(self, tmp_path: Path, folder: Path) -> Path:
        data = tmp_path / "data"
        (data / "volumes").mkdir(mode=0o700, parents=True)
        data.chmod(0o700)
        (data / "volumes" / "v.raw").touch(0o600)
        accounts_of(folder).grant_volumes(str(uuid4()), {str(data / "volumes" / "v.raw"): READ | WRITE})
        return data

    def protect(self, data: Path) -> None:
        umask = os.umask(0o077)
        try:
            private_files.protect(load({"NOVELLA_DATA": str(data), "NOVELLA_IMAGE_DIR": str(data / "images")}))
        finally:
            os.umask(umask)

    def test_a_volume_stays_open_to_its_guest(self, data: Path) -> None:
        self.protect(data)
        ((party, may),) = posix_acl.named(data / "volumes" / "v.raw").items()
        assert (party.number > BASE, may) == (True, READ | WRITE)
        assert posix_acl.named(data) == {posix_acl.group(BASE): SEARCH}

    @pytest.mark.parametrize("party", [posix_acl.user(1000), posix_acl.group(BASE), posix_acl.user(BASE)])
    def test_a_file_given_to_the_group_is_closed_to_all_where_others_have_access(
        self, data: Path, party: posix_acl.AclPrincipal
    ) -> None:
        volume = data / "volumes" / "v.raw"
        posix_acl.permit(volume, party, READ)
        self.protect(data)
        assert mode_of(volume) == 0o600
        assert set(posix_acl.named(volume).values()) == {0}


class TestDisks:
    """Backing images of a disk, by a header that its guest may have written."""

    @pytest.fixture
    def disk(self, tmp_path: Path) -> Path:
        for name in ("instances/guest", "images", "elsewhere"):
            (tmp_path / name).mkdir(parents=True)
        for name in ("images/image-1", "elsewhere/image-1", "api.sqlite3"):
            (tmp_path / name).write_bytes(bytes(1 << 20))
        return tmp_path / "instances" / "guest" / "root.qcow2"

    def make(self, disk: Path, below: Path, *options: str) -> None:
        words = ("-q", "-f", "qcow2", *options, "-F", "raw", "-b", str(below), str(disk))
        subprocess.run(["qemu-img", "create", *words], check=True)

    @pytest.mark.parametrize("compat", ["0.10", "1.1"])
    def test_an_image_of_the_host(self, disk: Path, tmp_path: Path, compat: str) -> None:
        self.make(disk, tmp_path / "images" / "image-1", "-o", f"compat={compat}")
        found = disks.backing_of(disk)
        assert found is not None
        assert (found.path, found.disk_format) == (tmp_path / "images" / "image-1", "raw")

    def test_a_disk_without_a_backing_file_has_none(self, disk: Path) -> None:
        disks.create_blank(disk, 1 << 20)
        assert disks.backing_of(disk) is None

    @pytest.mark.parametrize(
        "name", ["api.sqlite3", "elsewhere/image-1", "images/../api.sqlite3", "images/../elsewhere/image-1"]
    )
    def test_any_other_file_is_refused(self, disk: Path, tmp_path: Path, name: str) -> None:
        self.make(disk, Path(f"{tmp_path}/{name}"))
        disks_written = disk.read_bytes()
        with pytest.raises(DriverError, match="no image of this host"):
            disks.backing_of(disk)
        with pytest.raises(DriverError, match="no image of this host"):
            disks.copy_disk(disk, disk.with_name("copy.qcow2"), lambda: None)
        with pytest.raises(DriverError, match="no image of this host"):
            disks.require_unused(disk.parent)
        assert (disk.read_bytes(), disk.with_name("copy.qcow2").exists()) == (disks_written, False)

    def test_a_raw_image_that_the_disk_calls_qcow2_is_refused_where_it_refers_to_a_file(
        self, disk: Path, tmp_path: Path
    ) -> None:
        """A tenant uploads it as raw, which it may, and its guest lays its disk on it as qcow2."""
        image = tmp_path / "images" / "image-2"
        self.make(image, tmp_path / "api.sqlite3")
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", image, disk], check=True)
        with pytest.raises(DriverError, match="an image that refers to another file"):
            disks.copy_disk(disk, disk.with_name("copy.qcow2"), lambda: None)
        assert not disk.with_name("copy.qcow2").exists()

    def test_a_file_for_its_data_is_refused(self, disk: Path) -> None:
        disks.create_blank(disk, 1 << 20)
        with disk.open("r+b") as file:
            file.seek(72)
            file.write(struct.pack(">Q", 1 << 2))
        with pytest.raises(DriverError, match="refers to another file"):
            disks.backing_of(disk)


class TestSockets:
    """The sockets of a guest's consoles, in a folder in which the guest may put anything."""

    UID = BASE + 7

    @pytest.fixture
    def theirs(self, tmp_path: Path) -> Path:
        own = tmp_path / "guest"
        own.mkdir(mode=0o700)
        os.chown(own, self.UID, BASE)
        return own / "tty"

    def listening(self, path: Path, uid: int) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        made.bind(str(path))
        os.chown(path, uid, -1)
        return made

    def test_a_socket_of_the_guest_s_is_opened(self, theirs: Path) -> None:
        with self.listening(theirs, self.UID) as qemu, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
            with guest_socket.opened(theirs) as address:
                ours.sendto(b"typed", address)
            assert qemu.recv(64) == b"typed"

    def test_a_socket_of_the_host_s_is_not_opened(self, theirs: Path, tmp_path: Path) -> None:
        with self.listening(tmp_path / "host.sock", 0):
            theirs.symlink_to(tmp_path / "host.sock")
            with pytest.raises(PermissionError, match="no socket of this guest"), guest_socket.opened(theirs):
                pass
            theirs.unlink()
            os.link(tmp_path / "host.sock", theirs)
            with pytest.raises(PermissionError, match="no socket of this guest"), guest_socket.opened(theirs):
                pass
