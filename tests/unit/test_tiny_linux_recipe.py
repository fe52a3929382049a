"""The recipe of tiny-linux: the archive that the kernel unpacks, and when nothing is to be done."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.management.tiny_linux import builder, cpio

NAMES = st.text("abcdefghij/._-", min_size=1, max_size=40)


def read_back(data: bytes) -> list[tuple[str, int, bytes]]:
    """Return names, modes and contents by the format's description: 110 bytes of ASCII, name and data padded to 4."""
    entries, at = [], 0
    while True:
        assert at % 4 == 0
        head = data[at : at + 110].decode()
        assert head[:6] == "070701"
        numbers = [int(head[6 + 8 * index : 14 + 8 * index], 16) for index in range(13)]
        size, length = numbers[6], numbers[11]
        name = data[at + 110 : at + 110 + length]
        assert name.endswith(b"\0")
        begin = -(-(at + 110 + length) // 4) * 4
        if name == b"TRAILER!!!\0":
            return entries
        entries.append((name[:-1].decode(), numbers[1], data[begin : begin + size]))
        at = -(-(begin + size) // 4) * 4


@given(st.lists(st.tuples(NAMES, st.binary(max_size=50))))
def test_a_packed_archive_can_be_read(files: list[tuple[str, bytes]]) -> None:
    packed = cpio.archive([cpio.file(name, data) for name, data in files])
    assert read_back(packed) == [(name, 0o100644, data) for name, data in files]


def test_the_kinds_of_files() -> None:
    packed = cpio.archive(
        [cpio.directory("dev"), cpio.character_device("dev/console", 5, 1), cpio.link("bin/sh", "busybox")]
    )
    assert read_back(packed) == [
        ("dev", 0o040755, b""),
        ("dev/console", 0o020600, b""),
        ("bin/sh", 0o120777, b"busybox"),
    ]
    head = packed[len(packed) // 2 :]
    assert head  # the device's numbers are the tenth and eleventh
    device = packed.index(b"dev/console") - 110
    numbers = [int(packed[device + 6 + 8 * index : device + 14 + 8 * index], 16) for index in range(13)]
    assert numbers[9:11] == [5, 1]


class TestRamdisk:
    def test_equal_input_gives_equal_bytes(self) -> None:
        made = [builder.ramdisk(b"elf", ["sh", "ls"], {"virtio": b"ko"}) for _ in range(2)]
        assert made[0] == made[1]

    def test_busybox_is_not_replaced_by_a_link_and_init_can_run(self) -> None:
        packed = gzip.decompress(builder.ramdisk(b"elf", ["ls", "busybox", "sh", "sh"], {"virtio": b"ko"}))
        entries = {name: (mode, data) for name, mode, data in read_back(packed)}
        assert len(entries) == len(read_back(packed))
        assert entries["bin/busybox"] == (0o100755, b"elf")
        assert entries["bin/sh"] == (0o120777, b"busybox")
        assert entries["lib/modules/order"][1] == b"virtio\n"
        assert entries["init"][0] == 0o100755
        assert entries["init"][1].startswith(b"#!/bin/sh\n")
        for name in entries:
            parent = name.rpartition("/")[0]
            assert not parent or entries[parent][0] == 0o040755, name

    @pytest.mark.parametrize("script", ["init", "udhcpc.sh", "power_button.sh", "profile"])
    def test_the_scripts_are_shell(self, script: str) -> None:
        path = builder.SCRIPTS_DIR / script
        assert subprocess.run(["sh", "-n", str(path)], capture_output=True, check=False).returncode == 0


class TestIsCurrent:
    @pytest.fixture
    def output(self, tmp_path: Path) -> Path:
        (tmp_path / "vmlinuz").write_bytes(b"kernel")
        manifest = {
            "recipe": builder.recipe(),
            "files": {"vmlinuz": hashlib.sha256(b"kernel").hexdigest()},
        }
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))
        return tmp_path

    def test_an_unchanged_recipe_is_not_built_again(self, output: Path, capsys: pytest.CaptureFixture[str]) -> None:
        before = {path.name: path.stat().st_mtime_ns for path in output.iterdir()}
        assert builder.main(["--output", str(output)]) == 0
        assert capsys.readouterr().out == "tiny-linux: all there\n"
        assert {path.name: path.stat().st_mtime_ns for path in output.iterdir()} == before

    @pytest.mark.parametrize(
        "damage",
        [
            lambda output: (output / "vmlinuz").write_bytes(b"kernal"),
            lambda output: (output / "vmlinuz").unlink(),
            lambda output: (output / "manifest.json").unlink(),
            lambda output: (output / "manifest.json").write_text("{"),
            lambda output: (output / "manifest.json").write_text("[]"),
            lambda output: (output / "manifest.json").write_text('{"recipe": "older", "files": {}}'),
        ],
    )
    def test_anything_else_is_built_anew(self, output: Path, damage: object) -> None:
        assert builder.is_current(output)
        damage(output)  # type: ignore[operator]
        assert not builder.is_current(output)


def test_a_machine_without_debian_s_tools_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("apt-get") is None
    assert builder.main(["--output", str(tmp_path / "out")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "tiny-linux cannot be built: this needs Debian's package tools, and there is no apt-get"
    assert not (tmp_path / "out").exists()
