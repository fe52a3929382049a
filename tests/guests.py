"""Guests for tests: above all a boot sector of a hundred bytes that prints its start and ticks on the serial port."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import NotFound
from conductor.core.request_spec import FlavorSpec, ImageSpec

BANNER = b"boot sector guest runs\r\n"
TICK = b"tick\r\n"
ORIGIN = 0x7C00
SECTOR_BYTES = 512
DISK_BYTES = 1 << 20
BOOT_MARK = b"\x55\xaa"

_CODE = (
    # 00  cli; xor ax,ax; ds, ss = ax; sp = 7c00; sti; cld
    bytes.fromhex("fa 31c0 8ed8 8ed0 bc007c fb fc")
    # 0c  si = banner; call print
    + bytes.fromhex("be 0000 e8 1400")
    # 12  once a second, by the BIOS's wait of cx:dx microseconds:  si = tick; call print; again
    + bytes.fromhex("b486 b90f00 ba4042 cd15 be 0000 e8 0400 ebee 9090")
    # 26  print:  dx = first serial port; until a zero byte: out dx, [si++]
    + bytes.fromhex("baf803 ac 84c0 7403 ee ebf8 c3")
)
_BANNER_AT, _TICK_AT = 0x0D, 0x1D


def boot_sector() -> bytes:
    """512 bytes that a BIOS starts."""
    code = bytearray(_CODE)
    banner = ORIGIN + len(code)
    code[_BANNER_AT : _BANNER_AT + 2] = banner.to_bytes(2, "little")
    code[_TICK_AT : _TICK_AT + 2] = (banner + len(BANNER) + 1).to_bytes(2, "little")
    return (bytes(code) + BANNER + b"\0" + TICK + b"\0").ljust(SECTOR_BYTES - len(BOOT_MARK), b"\0") + BOOT_MARK


def boot_disk() -> bytes:
    """Return a raw disk of one MiB with the boot sector."""
    return boot_sector().ljust(DISK_BYTES, b"\0")


def chatty_disk() -> bytes:
    """Return a raw disk like `boot_disk`, whose guest ticks without a pause."""
    wait = _CODE[_TICK_AT - 11 : _TICK_AT - 1]
    assert wait.startswith(b"\xb4\x86"), "the BIOS's wait"
    return boot_disk().replace(wait, b"\x90" * len(wait), 1)


def image_of(image_id: str, data: bytes, **values: Any) -> ImageSpec:
    """Return an image whose figures are true of `data`."""
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    fields = {"disk_format": "raw", "container_format": "bare", "size": len(data), "checksum": digest} | values
    return ImageSpec(image_id=image_id, name=image_id, **fields)


class ImageShelf:
    """Image data by id; `open` is what a driver gets, `opened` counts by id."""

    def __init__(self, images: Mapping[str, bytes] | None = None) -> None:
        self.images = dict(images or {})
        self.opened: dict[str, int] = {}

    def open(self, image_id: str) -> BinaryIO:
        if image_id not in self.images:
            raise NotFound(f"No data found for image {image_id}")
        self.opened[image_id] = self.opened.get(image_id, 0) + 1
        return io.BytesIO(self.images[image_id])


def guest_of(instance_uuid: str, image: ImageSpec, **values: Any) -> GuestSpec:
    """Return a small guest named web-1 of `image`."""
    fields = {"name": "web-1", "hostname": "web-1", "project_id": "5" * 32} | values
    fields.setdefault("flavor", FlavorSpec("1", "tiny", vcpus=1, memory_mb=64, root_gb=1))
    return GuestSpec(instance_uuid=instance_uuid, image=image, **fields)


def qemu_of(uuid: str) -> list[int]:
    """Pids of QEMU processes whose command line names the instance."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if b"qemu-system" in words and uuid.encode() in words:
            found.append(int(path.parent.name))
    return found
