"""Images that fill the disk of the cloud: too many, too large, small files of large disks, and a full disk."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from conductor.api_db.models import InstanceMapping
from conductor.core import disk_images
from conductor.identity.models import RegisteredLimit
from conductor.image.models import Image
from conductor.volume.models import Volume
from tests.api.image.calls import BASE, OCTETS, create, upload
from tests.compute_rows import seed_cloud
from tests.integration.flows.moving import Hosts, run_to_the_end

VOLUMES = "/volume/v3/volumes"
MIB = 1 << 20
GIB = 1 << 30


@pytest.fixture(autouse=True)
def storage(people: Any, settings: Any, tmp_path: Path) -> Path:
    settings.NOVELLA_IMAGE_DIR = tmp_path / "images"
    settings.NOVELLA_DATA = tmp_path
    seed_cloud(people)
    return tmp_path


@pytest.fixture
def ana(api_client: Any) -> Any:
    return api_client("ana")


@pytest.fixture
def qcow2(ana: Any, tmp_path: Path) -> str:
    """An image of some kilobytes that is a disk of 3 GiB."""
    path = tmp_path / "bomb.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "3G"], check=True)
    image_id: str = create(ana, disk_format="qcow2")["id"]
    assert upload(ana, image_id, path.read_bytes()).status_code == 204
    return image_id


def limit(name: str, most: int) -> None:
    RegisteredLimit.objects.create(service_id="image", resource_name=name, default_limit=most)


def files(storage: Path, folder: str) -> list[str]:
    return sorted(path.name for path in (storage / folder).iterdir()) if (storage / folder).exists() else []


def test_a_project_has_only_so_many_images(ana: Any) -> None:
    limit("image_count_total", 2)
    kept = [create(ana)["id"] for _ in range(2)]
    refused = ana.post(BASE, {"name": "third"})
    assert (refused.status_code, "image_count_total" in refused.json()["message"]) == (413, True)
    assert Image.objects.count() == 2
    usage = ana.get("/image/v2/info/usage").json()["usage"]
    assert usage["image_count_total"] == {"limit": 2, "usage": 2}
    assert ana.delete(f"{BASE}/{kept[0]}").status_code == 204
    create(ana)


@pytest.mark.parametrize(("name", "path"), [("image_size_total", "file"), ("image_stage_total", "stage")])
def test_data_beyond_the_quota_are_refused_and_leave_nothing(ana: Any, storage: Path, name: str, path: str) -> None:
    limit(name, 1)
    large, fits, late = (create(ana)["id"] for _ in range(3))

    def put(image_id: str, data: bytes) -> int:
        return int(ana.put(f"{BASE}/{image_id}/{path}", data, headers=OCTETS).status_code)

    assert put(large, b"x" * (MIB + 1)) == 413
    assert (Image.objects.get(uuid=large).status, files(storage, "images")) == ("queued", [])
    assert put(fits, b"x" * MIB) == 204
    before = files(storage, "images")
    assert put(late, b"x") == 413
    assert (Image.objects.get(uuid=late).status, files(storage, "images")) == ("queued", before)


def test_uploads_at_once_are_counted(ana: Any, storage: Path) -> None:
    limit("image_count_uploading", 1)
    other, image_id = create(ana)["id"], create(ana)["id"]
    Image.objects.filter(uuid=other).update(status="saving")
    assert upload(ana, image_id).status_code == 413
    assert (Image.objects.get(uuid=image_id).status, files(storage, "images")) == ("queued", [])


def test_a_small_file_of_a_large_disk_needs_a_large_volume(ana: Any, qcow2: str, storage: Path) -> None:
    assert ana.get(f"{BASE}/{qcow2}").json()["virtual_size"] == 3 * GIB
    refused = ana.post(VOLUMES, {"volume": {"size": 1, "imageRef": qcow2}})
    assert (refused.status_code, "3GB" in refused.content.decode()) == (400, True)
    device = {"source_type": "image", "destination_type": "volume", "uuid": qcow2, "volume_size": 1, "boot_index": 0}
    wanted = {"name": "web", "flavorRef": "1", "networks": "none"}
    for more in ({"imageRef": qcow2}, {"imageRef": "", "block_device_mapping_v2": [device]}):
        answer = ana.post(
            "/compute/v2.1/servers", {"server": {**wanted, **more}}, headers={"X-OpenStack-Nova-API-Version": "2.87"}
        )
        assert answer.status_code == 400, answer.content
    assert not Volume.objects.exists()
    assert not InstanceMapping.objects.exists()


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Callbacks at the start of a conversion, which runs anyway."""
    begun: list[Callable[[], None]] = []
    run = disk_images.run

    def noting(*words: str, **more: Any) -> Any:
        if "convert" in words:
            for one in begun:
                one()
        return run(*words, **more)

    monkeypatch.setattr(disk_images, "run", noting)
    return begun


def test_the_size_of_an_image_is_checked_again_before_its_conversion(
    ana: Any, qcow2: str, storage: Path, converted: list[Callable[[], None]]
) -> None:
    conversions = count()
    converted.append(lambda: next(conversions))
    Image.objects.update(virtual_size=None)  # from before it was kept
    answer = ana.post(VOLUMES, {"volume": {"size": 1, "imageRef": qcow2}})
    assert answer.status_code == 202
    run_to_the_end(Hosts())
    assert Volume.objects.get().status == "error"
    assert files(storage, "volumes") == []
    assert next(conversions) == 0, "not begun"


def test_no_image_is_written_on_a_full_disk(ana: Any, storage: Path, settings: Any) -> None:
    full = create(ana)["id"]
    image_id = create(ana)["id"]
    assert upload(ana, image_id).status_code == 204
    before = files(storage, "images")
    made = ana.post(VOLUMES, {"volume": {"size": 1, "imageRef": image_id}})
    assert made.status_code == 202
    settings.NOVELLA_KEPT_FREE_GB = 1 << 20
    run_to_the_end(Hosts())
    assert (Volume.objects.get().status, files(storage, "volumes")) == ("error", [])
    refused = upload(ana, full)
    assert (refused.status_code, "no room" in refused.json()["message"]) == (413, True)
    assert (Image.objects.get(uuid=full).status, files(storage, "images")) == ("queued", before)
    assert ana.post(VOLUMES, {"volume": {"size": 1}}).status_code == 507
    assert Volume.objects.count() == 1


def test_a_conversion_stops_when_the_disk_becomes_full(
    ana: Any, qcow2: str, storage: Path, settings: Any, monkeypatch: Any, converted: list[Callable[[], None]]
) -> None:
    """There was room when it began; others fill the disk while it runs."""
    monkeypatch.setattr(disk_images, "WATCH_SECONDS", 0.0001)
    converted.append(lambda: setattr(settings, "NOVELLA_KEPT_FREE_GB", 1 << 20))
    assert ana.post(VOLUMES, {"volume": {"size": 3, "imageRef": qcow2}}).status_code == 202
    run_to_the_end(Hosts())
    assert (Volume.objects.get().status, files(storage, "volumes")) == ("error", [])
