"""Folders of guests on shared storage: a host that does not own one leaves it unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from compute_drivers.libvirt.paths import OWNER_NOTE, DiskOwner, LibvirtPaths, read_owner, write_owner
from conductor.core.errors import DriverError

UUID = "5c2f1f4e-6a0e-4a53-9a43-0d3b2f7c9e11"
DISK = "root.qcow2"


@pytest.fixture
def hosts(tmp_path: Path) -> tuple[LibvirtPaths, LibvirtPaths]:
    (tmp_path / "shared").mkdir()
    one, other = (LibvirtPaths(tmp_path / name, tmp_path / "shared", name) for name in ("a", "b"))
    for paths in (one, other):
        paths.prepare()
    return one, other


def test_one_host_has_the_folder_and_the_other_sees_it(hosts: tuple[LibvirtPaths, LibvirtPaths]) -> None:
    one, other = hosts
    folder = one.make_folder(UUID)
    assert folder == other.folder_of(UUID)
    assert (one.has_folder(UUID), other.has_folder(UUID)) == (True, False)
    assert (one.own_folders(), other.own_folders()) == ([folder], [])
    assert one.owner_of(UUID) == other.owner_of(UUID) == DiskOwner("a")
    assert one.images_dir != other.images_dir
    assert one.kept_dir != other.kept_dir
    with pytest.raises(DriverError, match="could not be made"):
        other.make_folder(UUID)
    assert other.owner_of(UUID) == DiskOwner("a")


def test_only_the_owner_of_a_folder_removes_it(hosts: tuple[LibvirtPaths, LibvirtPaths]) -> None:
    one, other = hosts
    (one.make_folder(UUID) / DISK).touch()
    other.remove(UUID)
    assert (one.folder_of(UUID) / DISK).exists()
    one.remove(UUID)
    assert list(one.instances_dir.iterdir()) == []


def test_one_that_was_taken_over_goes_back_until_its_guest_runs(hosts: tuple[LibvirtPaths, LibvirtPaths]) -> None:
    one, other = hosts
    (one.make_folder(UUID) / DISK).touch()
    other.set_owner(UUID, DiskOwner("b", taken_from="a"))
    other.remove(UUID)
    assert (one.owner_of(UUID), one.folder_of(UUID).joinpath(DISK).exists()) == (DiskOwner("a"), True)
    other.set_owner(UUID, DiskOwner("b"))
    one.remove(UUID)
    assert other.has_folder(UUID)
    other.remove(UUID)
    assert list(one.instances_dir.iterdir()) == []


@pytest.mark.parametrize("cut_off", ["making", "removing"])
def test_a_folder_of_an_interrupted_call_has_no_owner_and_blocks_no_guest(
    hosts: tuple[LibvirtPaths, LibvirtPaths], cut_off: str
) -> None:
    one, _ = hosts
    one.make_folder(UUID)
    left = one.folder_of(UUID).rename(one.instances_dir / f"{UUID}.a")
    if cut_off == "removing":
        (left / OWNER_NOTE).unlink()
        (left / DISK).touch()
    assert one.owner_of(UUID) is None
    assert one.own_folders() == []
    assert one.make_folder(UUID).is_dir()
    one.remove(UUID)
    assert list(one.instances_dir.iterdir()) == []
    one.make_folder(UUID).rename(left)
    one.prepare()
    assert list(one.instances_dir.iterdir()) == []


def test_a_note_that_cannot_be_read_names_no_process(tmp_path: Path) -> None:
    assert read_owner(tmp_path / "nothing") is None
    for reported in ("", "{}", "[]", '{"host"'):
        (tmp_path / OWNER_NOTE).write_text(reported)
        assert read_owner(tmp_path) is None
    write_owner(tmp_path, DiskOwner("a"))
    assert read_owner(tmp_path) == DiskOwner("a")


def test_a_shared_folder_that_is_not_mounted_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="mounted"):
        LibvirtPaths(tmp_path / "a", tmp_path / "nowhere", "a").prepare()
    assert not (tmp_path / "nowhere").exists()


def test_a_host_alone_has_all_its_folders(tmp_path: Path) -> None:
    paths = LibvirtPaths(tmp_path)
    paths.prepare()
    folder = paths.make_folder(UUID)
    assert (paths.own_folders(), paths.has_folder(UUID), paths.owner_of(UUID)) == ([folder], True, None)
    paths.remove(UUID)
    assert list(paths.instances_dir.iterdir()) == []
