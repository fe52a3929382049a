"""Images that a host keeps: whole, right, and not for ever."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from compute_drivers.image_cache import ImageCache
from compute_drivers.libvirt import disks
from conductor.core.disk_images import Backing
from conductor.core.errors import DriverError
from tests.guests import ImageShelf, image_of

DATA = {"one": b"1" * 4096, "two": b"2" * 4096, "three": b"3" * 4096}
SHELF = ImageShelf(DATA)


def filled(folder: Path, **limits: float) -> ImageCache:
    """Return a cache with all three images; the first is the least recently used."""
    cache = ImageCache(folder, SHELF.open, **limits)  # type: ignore[arg-type]
    cache.prepare()
    for age, (name, data) in zip((300, 200, 100), DATA.items(), strict=True):
        path = cache.fetch(image_of(name, data), lambda _: None)
        moment = datetime.now(UTC).timestamp() - age
        os.utime(path, (moment, moment))
    return cache


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_unused_entries_are_removed(tmp_path: Path) -> None:
    cache = filled(tmp_path, keep_seconds=150.0)
    assert cache.expire(list) == ["one", "two"]
    assert names(tmp_path) == {"three"}


def test_beyond_the_size_limit_the_least_recently_used_images_are_removed(tmp_path: Path) -> None:
    cache = filled(tmp_path, most_bytes=9000)
    assert cache.expire(list) == ["one"]
    assert names(tmp_path) == {"two", "three"}


def test_images_in_use_by_disks_or_builds_are_kept(tmp_path: Path) -> None:
    cache = filled(tmp_path / "images", keep_seconds=0.0)
    folder = tmp_path / "instances" / "guest"
    folder.mkdir(parents=True)
    disks.create_overlay(folder / disks.ROOT, Backing(tmp_path / "images" / "one", "raw", 4096))
    in_use = partial(disks.backing_images, tmp_path / "instances", tmp_path / "nowhere")
    assert in_use() == {"one"}
    with cache.pinned("two"):
        assert cache.expire(in_use) == ["three"]
    cache.expire_if_due(in_use)
    assert names(tmp_path / "images") == {"one"}
    cache.fetch(image_of("two", DATA["two"]), lambda _: None)
    cache.expire_if_due(in_use)  # it has just looked
    assert names(tmp_path / "images") == {"one", "two"}
    assert cache.expire(in_use) == ["two"]
    assert names(tmp_path / "images") == {"one"}


def test_using_an_image_renews_its_age(tmp_path: Path) -> None:
    cache = filled(tmp_path, keep_seconds=150.0)
    cache.fetch(image_of("one", DATA["one"]), lambda _: None)
    assert cache.expire(list) == ["two"]


def test_a_kept_image_that_was_damaged_is_fetched_anew_by_the_next_process(tmp_path: Path) -> None:
    path = filled(tmp_path).fetch(image_of("one", DATA["one"]), lambda _: None)
    path.write_bytes(b"x" * 4096)  # of the right size
    again = ImageCache(tmp_path, SHELF.open)
    assert again.fetch(image_of("one", DATA["one"]), lambda _: None).read_bytes() == DATA["one"]
    opened = SHELF.opened["one"]
    again.fetch(image_of("one", DATA["one"]), lambda _: None)
    assert SHELF.opened["one"] == opened


def test_files_of_killed_rebuilds_and_snapshots_are_removed_at_the_start(tmp_path: Path) -> None:
    guest = tmp_path / "guest"
    (guest / "new").mkdir(parents=True)
    for name in ("new/root.qcow2", "root.qcow2", "rescue.qcow2", "snapshot.qcow2", "config.iso"):
        (guest / name).write_bytes(b"x")
    disks.remove_unfinished([guest])
    assert names(guest) == {"root.qcow2", "rescue.qcow2", "config.iso"}


def test_a_disk_that_is_cut_short_cannot_be_grown(tmp_path: Path) -> None:
    (tmp_path / "root.qcow2").write_bytes(b"QFI\xfb")
    with pytest.raises(DriverError, match="cannot be read"):
        disks.grow(tmp_path / "root.qcow2", 1 << 30)
