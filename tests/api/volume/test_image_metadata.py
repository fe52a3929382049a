"""Image metadata from a volume's owner: no text breaks what is created from the volume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conductor.api_db.models import BuildRequest
from conductor.image.models import Image
from conductor.volume.models import Volume
from tests.compute_rows import seed_cloud
from tests.fixtures.volume_requests import VOLUME, act, settled, volume
from tests.fleet import add_host

SERVERS = "/compute/v2.1/servers"
TOO_MUCH = str(10**20)


@pytest.fixture
def storage(people: Any, settings: Any, tmp_path: Path) -> None:
    settings.NOVELLA_DATA = tmp_path
    settings.NOVELLA_IMAGE_DIR = tmp_path / "images"
    seed_cloud(people)
    add_host("sim-1", "cell1", size=(64, 65536, 1000))


@pytest.mark.parametrize("text", ["lots", "-1", "1.5", "²", "", TOO_MUCH])
@pytest.mark.parametrize("name", ["min_ram", "min_disk"])
def test_an_invalid_number_is_refused(storage: None, api_client: Any, name: str, text: str) -> None:
    ana = api_client("ana")
    path = f"{VOLUME}/{volume(ana)}"
    answer = ana.post(f"{path}/action", {"os-set_image_metadata": {"metadata": {name: text, "os_distro": "x"}}})
    assert (answer.status_code, name in answer.json()["badRequest"]["message"]) == (400, True)
    assert Volume.objects.get().image_metadata == {}
    assert act(ana, path, "os-set_image_metadata", {"metadata": {name: "64"}}) == 200
    assert Volume.objects.get().image_metadata == {name: "64"}


@pytest.mark.parametrize("text", ["lots", TOO_MUCH])
def test_invalid_image_metadata_of_a_volume_is_ignored(storage: None, api_client: Any, text: str) -> None:
    """A backup's record brings whatever its volume had elsewhere."""
    ana = api_client("ana", version="2.87")
    uuid = volume(ana)
    Volume.objects.update(is_bootable=True, image_metadata={"min_ram": text, "min_disk": text})
    gold = {"image_name": "gold", "disk_format": "qcow2"}  # raw would be a gigabyte to read
    assert act(ana, f"{VOLUME}/{uuid}", "os-volume_upload_image", gold) == 202
    image = Image.objects.get(name="gold")
    assert (image.min_ram_mb, image.min_disk_gb) == (0, 1)
    settled()
    device = {"source_type": "volume", "destination_type": "volume", "uuid": uuid, "boot_index": 0}
    wanted = {"name": "web-1", "flavorRef": "1", "networks": "none", "block_device_mapping_v2": [device]}
    answer = ana.post(SERVERS, {"server": wanted})
    assert (answer.status_code, BuildRequest.objects.count()) == (202, 1), answer.content


def test_an_image_of_a_volume_takes_over_properties_and_nothing_else(
    storage: None, api_client: Any, people: Any
) -> None:
    ana = api_client("ana")
    path = f"{VOLUME}/{volume(ana)}"
    values = {"owner": people.chi.project.id, "os_hidden": "perhaps", "tags": "x", "status": "active", "os_distro": "y"}
    assert act(ana, path, "os-set_image_metadata", {"metadata": values}) == 200
    assert act(ana, path, "os-volume_upload_image", {"image_name": "gold"}) == 202
    image = Image.objects.get(name="gold")
    assert (image.project_id, image.is_hidden, image.tags, image.status) == (people.ana.project.id, False, [], "queued")
    assert image.properties == {"os_distro": "y"}
