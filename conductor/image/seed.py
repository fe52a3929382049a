"""The images of a new cloud: a tiny Linux for real hosts, and one for simulated hosts only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.utils import timezone

from conductor.core.errors import NotFound
from conductor.db.transactions import write_tx
from conductor.image import store
from conductor.image.models import Image

CHUNK = 1 << 20
SIMULATED_TEXT = (
    b"This is no disk. Simulated hosts pretend to start guests from this image; nothing runs on them.\n" * 8
)
REAL = {"hw_architecture": "x86_64", "img_hv_type": "qemu", "os_type": "linux", "os_distro": "tiny-linux"}
SIMULATED = {"hw_architecture": "x86_64", "img_hv_type": "fake", "os_type": "linux", "os_distro": "simulated"}


@dataclass(frozen=True, slots=True)
class _Seed:
    name: str
    disk_format: str
    container_format: str
    source: Path | bytes
    min_ram_mb: int = 0
    is_simulated: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    def chunks(self) -> Iterator[bytes]:
        if isinstance(self.source, bytes):
            yield self.source
            return
        with self.source.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk


def seed(project_id: str, tiny_linux_dir: Path | None) -> dict[str, str]:
    """Create the missing public images. Return their uuids by name. Does nothing when all exist.

    When the files of the tiny Linux changed, new images take the names and the old ones are hidden from lists:
    existing servers keep their image.
    """
    seeded: dict[str, str] = {}
    if tiny_linux_dir is not None:
        kernel = _Seed("tiny-linux-kernel", "aki", "aki", tiny_linux_dir / "vmlinuz")
        ramdisk = _Seed("tiny-linux-ramdisk", "ari", "ari", tiny_linux_dir / "ramdisk.cpio.gz")
        seeded |= {part.name: _ensure(project_id, part) for part in (kernel, ramdisk)}
        starts_with = {"kernel_id": seeded[kernel.name], "ramdisk_id": seeded[ramdisk.name]}
        disk_file = tiny_linux_dir / "disk.raw"
        disk = _Seed("tiny-linux", "raw", "bare", disk_file, min_ram_mb=96, properties=REAL | starts_with)
        seeded[disk.name] = _ensure(project_id, disk)
    simulated = _Seed("simulated-linux", "raw", "bare", SIMULATED_TEXT, is_simulated=True, properties=SIMULATED)
    seeded[simulated.name] = _ensure(project_id, simulated)
    return seeded


def _ensure(project_id: str, wanted: _Seed) -> str:
    current = Image.objects.filter(
        name=wanted.name, project_id=project_id, visibility="public", status="active", is_hidden=False, deleted_at=None
    )
    digest = _digest(wanted)
    for image in current:
        if image.os_hash_value == digest and image.properties == wanted.properties and _has_data(image):
            return str(image.uuid)
    image_uuid = uuid4()
    with store.upload_claim(image_uuid):
        stored = store.write(image_uuid, wanted.chunks())
        now = timezone.now()
        described: dict[str, Any] = {name: getattr(wanted, name) for name in _DESCRIBED}
        with write_tx():
            current.update(is_hidden=True, updated_at=now)
            Image.objects.create(
                **described,
                uuid=image_uuid,
                project_id=project_id,
                status="active",
                visibility="public",
                size=stored.size,
                checksum=stored.md5,
                os_hash_value=stored.sha512,
                properties=dict(wanted.properties),
                created_at=now,
                updated_at=now,
            )
    return str(image_uuid)


_DESCRIBED = ("name", "disk_format", "container_format", "min_ram_mb", "is_simulated")


def _digest(wanted: _Seed) -> str:
    sha512 = hashlib.sha512()
    for chunk in wanted.chunks():
        sha512.update(chunk)
    return sha512.hexdigest()


def _has_data(image: Image) -> bool:
    try:
        store.open_image(str(image.uuid)).close()
    except NotFound:
        return False
    return True
