"""Image data: complete or absent, whichever process dies at any time."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.image import operations, seed, store
from conductor.image.models import Image
from tests.waiting import WAIT_SECONDS

RAW = {"name": "boots", "disk_format": "raw", "container_format": "bare"}
DATA = b"sectors" * 5000


@pytest.fixture(autouse=True)
def images_dir() -> Path:
    directory = Path(settings.NOVELLA_DATA) / "images"
    directory.mkdir(exist_ok=True)
    for path in directory.iterdir():
        path.unlink()
    return directory


def on_disk(images_dir: Path) -> set[str]:
    return {path.name for path in images_dir.iterdir()}


def make(people: Any) -> str:
    return str(operations.create(people.ana.context(), RAW).uuid)


def breaking() -> Iterator[bytes]:
    yield DATA
    raise Invalid("The request body broke off.")


def test_a_broken_upload_leaves_a_queued_image(people: Any, images_dir: Path) -> None:
    image_id = make(people)
    with pytest.raises(Invalid):
        operations.upload(people.ana.context(), image_id, breaking())
    image = Image.objects.get()
    assert (image.status, image.size, image.checksum) == ("queued", None, None)
    assert on_disk(images_dir) == set()
    operations.upload(people.ana.context(), image_id, [DATA])
    assert Image.objects.get().status == "active"
    with store.open_image(image_id) as data:
        assert data.read() == DATA


def test_one_of_two_uploads_wins(people: Any, images_dir: Path) -> None:
    image_id, is_inside, may_end = make(people), threading.Event(), threading.Event()

    def slow() -> Iterator[bytes]:
        yield DATA
        is_inside.set()
        may_end.wait(WAIT_SECONDS)

    def run() -> None:
        operations.upload(people.ana.context(), image_id, slow())
        connections.close_all()

    first = threading.Thread(target=run)
    first.start()
    assert is_inside.wait(WAIT_SECONDS)
    assert Image.objects.get().status == "saving"
    with pytest.raises(Conflict, match="uploaded by another"):
        operations.upload(people.bo.context(), image_id, [b"other"])
    assert operations.settle_broken_uploads() == 0
    may_end.set()
    first.join(timeout=WAIT_SECONDS)
    assert (Image.objects.get().status, Image.objects.get().size) == ("active", len(DATA))
    with pytest.raises(Conflict, match="has data already"):
        operations.upload(people.bo.context(), image_id, [b"other"])
    assert on_disk(images_dir) == {image_id}


def test_an_image_deleted_while_uploading_stays_deleted(people: Any, images_dir: Path) -> None:
    image_id = make(people)

    def deleting() -> Iterator[bytes]:
        yield DATA
        operations.delete(people.ana.context(), image_id)

    with pytest.raises(NotFound):
        operations.upload(people.ana.context(), image_id, deleting())
    assert Image.objects.get().status == "deleted"
    assert on_disk(images_dir) == set()


_UPLOADER = """
import sys
import django
django.setup()
from conductor.image import operations
from conductor.core.context import RequestContext
context = RequestContext.from_json(__import__("json").loads(sys.argv[2]))
def chunks():
    yield b"half of it"
    print("inside", flush=True)
    sys.stdin.read()  # until the process is killed
operations.upload(context, sys.argv[1], chunks())
"""


@pytest.fixture
def killed_upload(people: Any) -> str:
    """The id of an image whose uploader was killed in the middle."""
    image_id = make(people)
    context = json.dumps(people.ana.context().to_json())
    (script := Path(settings.NOVELLA_DATA) / "uploader.py").write_text(_SETTINGS + _UPLOADER)
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    arguments = [sys.executable, str(script), image_id, context]
    environment |= {
        "PYTHONPATH": str(settings.BASE_DIR),
        "TEST_DATABASE": str(connections["default"].settings_dict["NAME"]),
    }
    process = subprocess.Popen(arguments, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        assert process.stdout.readline() == "inside\n"
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT_SECONDS)
    assert Image.objects.get().status == "saving"
    return image_id


_SETTINGS = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
from django.conf import settings
settings.DATABASES["default"]["NAME"] = os.environ.pop("TEST_DATABASE")
"""


def test_a_killed_uploader_is_settled(killed_upload: str, images_dir: Path) -> None:
    assert operations.settle_broken_uploads() == 1
    assert Image.objects.get().status == "queued"
    assert on_disk(images_dir) == set()
    assert operations.settle_broken_uploads() == 0


def test_the_next_upload_takes_over_from_a_killed_one(killed_upload: str, people: Any, images_dir: Path) -> None:
    operations.upload(people.ana.context(), killed_upload, [DATA])
    assert (Image.objects.get().status, Image.objects.get().size) == ("active", len(DATA))
    assert on_disk(images_dir) == {killed_upload}


def test_image_files_outside_of_the_store_are_not_opened(people: Any, images_dir: Path) -> None:
    (images_dir / "outside").write_text("secret")
    for name in ("outside", "../images/outside", "/etc/passwd", "", make(people)):
        with pytest.raises(NotFound):
            store.open_image(name)


def tiny_linux(directory: Path, kernel: bytes = b"kernel") -> Path:
    directory.mkdir(exist_ok=True)
    for name, data in (("vmlinuz", kernel), ("ramdisk.cpio.gz", b"ramdisk"), ("disk.raw", bytes(4096))):
        (directory / name).write_bytes(data)
    return directory


def test_seed_without_a_tiny_linux(people: Any) -> None:
    seeded = seed.seed(people.admin.project.id, None)
    assert set(seeded) == {"simulated-linux"}
    image = Image.objects.get()
    assert (image.status, image.visibility, image.is_simulated) == ("active", "public", True)
    assert image.properties["img_hv_type"] == "fake"
    with store.open_image(str(image.uuid)) as data:
        text = data.read()
    assert (image.size, image.checksum) == (len(text), hashlib.md5(text).hexdigest())


def test_seed_is_done_once(people: Any, tmp_path: Path, images_dir: Path) -> None:
    seeded = seed.seed(people.admin.project.id, tiny_linux(tmp_path))
    before = list(Image.objects.order_by("pk").values())
    assert set(seeded) == {"tiny-linux-kernel", "tiny-linux-ramdisk", "tiny-linux", "simulated-linux"}
    assert seed.seed(people.admin.project.id, tiny_linux(tmp_path)) == seeded
    assert list(Image.objects.order_by("pk").values()) == before
    disk = Image.objects.get(name="tiny-linux")
    assert (disk.disk_format, disk.min_ram_mb) == ("raw", 96)
    assert disk.properties["kernel_id"] == seeded["tiny-linux-kernel"]
    assert disk.properties["ramdisk_id"] == seeded["tiny-linux-ramdisk"]
    assert (disk.properties["img_hv_type"], disk.properties["hw_architecture"]) == ("qemu", "x86_64")
    assert on_disk(images_dir) == set(seeded.values())


def test_seed_follows_a_new_kernel(people: Any, tmp_path: Path) -> None:
    old = seed.seed(people.admin.project.id, tiny_linux(tmp_path))
    new = seed.seed(people.admin.project.id, tiny_linux(tmp_path, b"newer kernel"))
    same = {name for name in old if old[name] == new[name]}
    assert same == {"tiny-linux-ramdisk", "simulated-linux"}
    shown = operations.list_visible(people.ana.context(), operations.ImageQuery())
    assert {image.name: str(image.uuid) for image in shown} == new
    assert operations.get_visible(people.ana.context(), old["tiny-linux"]).is_hidden is True
    assert Image.objects.get(uuid=new["tiny-linux"]).properties["kernel_id"] == new["tiny-linux-kernel"]


def test_seed_restores_lost_data(people: Any, images_dir: Path) -> None:
    old = seed.seed(people.admin.project.id, None)["simulated-linux"]
    (images_dir / old).unlink()
    new = seed.seed(people.admin.project.id, None)["simulated-linux"]
    assert new != old
    assert on_disk(images_dir) == {new}


def test_specs_say_what_drivers_need(people: Any) -> None:
    image_id = make(people)
    operations.update(people.ana.context(), image_id, [operations.ImageChange("add", "hw_architecture", "x86_64")])
    operations.upload(people.ana.context(), image_id, [DATA])
    spec = operations.image_spec(operations.get_visible(people.ana.context(), image_id))
    assert (spec.image_id, spec.name, spec.disk_format, spec.size) == (image_id, "boots", "raw", len(DATA))
    assert spec.checksum == hashlib.md5(DATA).hexdigest()
    assert spec.properties == {"hw_architecture": "x86_64"}
    with pytest.raises(NotFound):
        operations.get_visible(people.ana.context(), "no-uuid")
