"""Images of servers with a root volume: they boot as long as they are there, also where their snapshots are deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conductor.cell_db.models import Instance
from conductor.image.models import Image
from conductor.services.operations import storage_cleanup
from conductor.volume import store
from conductor.volume.models import ImageSnapshot, Snapshot, Volume
from tests.api.image.calls import BASE, create, patch, upload
from tests.compute_rows import seed_cloud
from tests.fixtures.boot_volumes import first_bytes
from tests.fixtures.volume_requests import NEWEST, ROOT, VOLUME, act
from tests.integration.flows.moving import CELL, run_to_the_end
from tests.integration.flows.storing import StorageHosts

SERVERS = "/compute/v2.1/servers"
DATA = b"the first bytes of a system" * 1000


@pytest.fixture
def hosts(people: Any, settings: Any, tmp_path: Path) -> StorageHosts:
    settings.NOVELLA_IMAGE_DIR = tmp_path / "images"
    settings.NOVELLA_DATA = tmp_path
    seed_cloud(people, "sim-1")
    return StorageHosts()


@pytest.fixture
def ana(api_client: Any) -> Any:
    return api_client("ana", version="2.87")


@pytest.fixture
def chi(api_client: Any) -> Any:
    return api_client("chi", version="2.87")


@pytest.fixture
def server(hosts: StorageHosts, ana: Any) -> str:
    """A server whose root disk is a volume with DATA; its delete leaves the volume."""
    image_id = create(ana, name="system")["id"]
    assert upload(ana, image_id, DATA).status_code == 204
    device = {"source_type": "image", "destination_type": "volume", "uuid": image_id, "volume_size": 1, "boot_index": 0}
    return launched(hosts, ana, block_device_mapping_v2=[device])


@pytest.fixture
def image(hosts: StorageHosts, ana: Any, server: str) -> str:
    """An image that was made of that server by `createImage`."""
    answer = ana.post(f"{SERVERS}/{server}/action", {"createImage": {"name": "kept"}})
    assert answer.status_code == 202, answer.content
    run_to_the_end(hosts)
    image_id: str = answer.json()["image_id"]
    assert ana.get(f"{BASE}/{image_id}").json()["status"] == "active"
    return image_id


def launch(client: Any, **values: Any) -> Any:
    return client.post(SERVERS, {"server": {"name": "web-1", "flavorRef": "1", "networks": "none", **values}})


def launched(hosts: StorageHosts, client: Any, **values: Any) -> str:
    answer = launch(client, **values)
    assert answer.status_code == 202, answer.content
    run_to_the_end(hosts)
    uuid: str = answer.json()["server"]["id"]
    assert Instance.objects.using(CELL).get(uuid=uuid).vm_state == "active"
    return uuid


def root_volume(client: Any, server: str) -> str:
    (attached,) = client.get(f"{SERVERS}/{server}").json()["server"]["os-extended-volumes:volumes_attached"]
    return str(attached["id"])


def has_data(volume: str) -> bool:
    return first_bytes(volume, len(DATA)) == DATA


def delete_snapshot(client: Any) -> str:
    """Delete the one snapshot that there is; its id."""
    uuid = str(Snapshot.objects.get().uuid)
    path = f"{ROOT}/snapshots/{uuid}"
    assert client.delete(path).status_code == 202
    assert client.get(path).status_code == 404
    assert client.get(f"{ROOT}/snapshots").json() == {"snapshots": []}
    return uuid


def used(client: Any) -> tuple[int, int]:
    """Snapshots and gigabytes that count against the limits of the client's project."""
    limits = client.get(f"{ROOT}/limits").json()["limits"]["absolute"]
    return limits["totalSnapshotsUsed"], limits["totalGigabytesUsed"]


def test_a_server_boots_from_an_image_whose_server_snapshot_and_volume_are_deleted(
    hosts: StorageHosts, ana: Any, server: str, image: str
) -> None:
    volume = root_volume(ana, server)
    assert ana.delete(f"{SERVERS}/{server}").status_code == 204
    run_to_the_end(hosts)
    before = used(ana)
    snapshot = delete_snapshot(ana)
    assert used(ana) == before == (1, 2), "what the image keeps counts as before"
    assert ana.delete(f"{VOLUME}/{volume}").status_code == 202
    assert ana.get(f"{VOLUME}/{volume}").status_code == 404
    booted = root_volume(ana, launched(hosts, ana, imageRef=image))
    device = {"source_type": "image", "destination_type": "volume", "uuid": image, "boot_index": 0}
    named = root_volume(ana, launched(hosts, ana, block_device_mapping_v2=[device]))
    made = ana.post(VOLUME, {"volume": {"imageRef": image, "size": 1}}, headers=NEWEST)
    assert made.status_code == 202, made.content
    run_to_the_end(hosts)
    for uuid in (booted, named, made.json()["volume"]["id"]):
        shown = ana.get(f"{VOLUME}/{uuid}").json()["volume"]
        assert (shown["snapshot_id"], shown["size"], shown["bootable"]) == (snapshot, 1, "true")
        assert shown["volume_image_metadata"]["image_name"] == "system"
        assert has_data(uuid)
    assert ana.delete(f"{BASE}/{image}").status_code == 204
    assert (ImageSnapshot.objects.count(), store.snapshot_path_of(snapshot).exists()) == (0, False)
    assert used(ana) == (0, 3)
    assert launch(ana, imageRef=image).status_code == 400


@pytest.mark.parametrize("destination", ["local", "volume"])
def test_a_client_that_names_the_image_as_the_root_device_too_gets_the_root_that_it_lists(
    hosts: StorageHosts, ana: Any, image: str, destination: str
) -> None:
    device = {"source_type": "image", "destination_type": destination, "uuid": image, "boot_index": 0, "volume_size": 1}
    uuid = launched(hosts, ana, imageRef=image, block_device_mapping_v2=[device])
    assert has_data(root_volume(ana, uuid))
    volumes = Volume.objects.count()
    other = create(ana, name="other")["id"]
    assert upload(ana, other).status_code == 204
    requested = [{**device, "uuid": other}]
    assert launch(ana, imageRef=image, block_device_mapping_v2=requested).status_code == 400
    assert Volume.objects.count() == volumes


def test_the_data_stay_for_a_snapshot_whose_image_is_deleted(ana: Any, image: str) -> None:
    assert ana.delete(f"{BASE}/{image}").status_code == 204
    snapshot = Snapshot.objects.get()
    assert (snapshot.status, ImageSnapshot.objects.count()) == ("available", 0)
    assert store.snapshot_path_of(snapshot.uuid).exists()
    delete_snapshot(ana)
    assert not store.snapshot_path_of(snapshot.uuid).exists()


def test_a_volume_goes_with_its_snapshots_and_the_image_boots(
    hosts: StorageHosts, ana: Any, server: str, image: str
) -> None:
    volume = root_volume(ana, server)
    assert ana.delete(f"{SERVERS}/{server}").status_code == 204
    run_to_the_end(hosts)
    assert ana.delete(f"{VOLUME}/{volume}").status_code == 400  # it has a snapshot
    assert ana.delete(f"{VOLUME}/{volume}?cascade=True").status_code == 202
    assert (Volume.objects.count(), Snapshot.objects.count()) == (0, 0)
    assert has_data(root_volume(ana, launched(hosts, ana, imageRef=image)))


def test_an_image_that_another_project_describes_neither_reads_nor_keeps_the_data(
    hosts: StorageHosts, ana: Any, chi: Any, image: str
) -> None:
    listed = ana.get(f"{BASE}/{image}").json()["block_device_mapping"]
    bait = create(chi, name="bait", block_device_mapping=listed)["id"]
    assert upload(chi, bait).status_code == 204
    snapshot = delete_snapshot(ana)
    volumes = Volume.objects.count()

    def assert_refused() -> None:
        assert launch(chi, imageRef=bait).status_code == 400
        device = {"destination_type": "volume", "boot_index": 0, "volume_size": 1}
        for source, uuid in (("image", bait), ("snapshot", snapshot)):
            requested = [{**device, "source_type": source, "uuid": uuid}]
            assert launch(chi, block_device_mapping_v2=requested).status_code == 400
        for source in ({"imageRef": bait}, {"snapshot_id": snapshot}):
            assert chi.post(VOLUME, {"volume": {"size": 1, **source}}).status_code == 404
        assert Volume.objects.count() == volumes

    assert_refused()
    assert ana.delete(f"{BASE}/{image}").status_code == 204
    assert not store.snapshot_path_of(snapshot).exists(), "the list of another image keeps nothing"
    assert_refused()


def test_an_image_boots_from_its_own_snapshots_only(hosts: StorageHosts, ana: Any, image: str) -> None:
    """Also within a project: naming a snapshot in a list gives no access to it."""
    listed = ana.get(f"{BASE}/{image}").json()["block_device_mapping"]
    other = create(ana, name="other", block_device_mapping=listed)["id"]
    assert upload(ana, other).status_code == 204
    assert has_data(root_volume(ana, launched(hosts, ana, imageRef=other))), "the snapshot is there"
    delete_snapshot(ana)
    refused = launch(ana, imageRef=other)
    assert (refused.status_code, "failed to get snapshot" in refused.json()["badRequest"]["message"]) == (400, True)
    assert has_data(root_volume(ana, launched(hosts, ana, imageRef=image)))


def test_an_image_that_is_shared_shares_no_data(ana: Any, chi: Any, people: Any, image: str) -> None:
    assert patch(ana, image, {"op": "replace", "path": "/visibility", "value": "shared"}).status_code == 200
    lab = people.chi.project.id
    assert ana.post(f"{BASE}/{image}/members", {"member": lab}).status_code == 200
    assert launch(chi, imageRef=image).status_code == 400
    delete_snapshot(ana)
    assert launch(chi, imageRef=image).status_code == 400
    assert chi.post(VOLUME, {"volume": {"imageRef": image, "size": 1}}).status_code == 404
    assert Volume.objects.count() == 1


def test_an_image_that_is_deleted_while_a_volume_is_made_keeps_its_data_until_then(
    hosts: StorageHosts, ana: Any, image: str
) -> None:
    snapshot = delete_snapshot(ana)
    made = ana.post(VOLUME, {"volume": {"imageRef": image, "size": 1}}, headers=NEWEST).json()["volume"]["id"]
    assert ana.delete(f"{BASE}/{image}").status_code == 204
    assert store.snapshot_path_of(snapshot).exists()
    storage_cleanup.tend()
    assert store.snapshot_path_of(snapshot).exists()
    run_to_the_end(hosts)
    assert (Volume.objects.get(uuid=made).status, has_data(made)) == ("available", True)
    storage_cleanup.tend()
    assert (ImageSnapshot.objects.count(), store.snapshot_path_of(snapshot).exists()) == (0, False)


def test_an_interrupted_deletion_is_finished_by_the_upkeep(ana: Any, image: str) -> None:
    snapshot = delete_snapshot(ana)
    storage_cleanup.tend()
    assert store.snapshot_path_of(snapshot).exists(), "the image is there"
    Image.objects.filter(uuid=image).update(deleted_at=Image.objects.get(uuid=image).created_at, status="deleted")
    storage_cleanup.tend()
    assert (ImageSnapshot.objects.count(), store.snapshot_path_of(snapshot).exists()) == (0, False)


def test_data_are_deleted_when_snapshot_and_image_are_deleted_concurrently(ana: Any, image: str) -> None:
    """Both are marked as deleted before either deletion checks for the other."""
    snapshot = Snapshot.objects.get().uuid
    Snapshot.objects.update(status="deleting")
    ImageSnapshot.objects.update(is_released=True)
    storage_cleanup.tend()
    assert (Snapshot.objects.count(), ImageSnapshot.objects.count()) == (0, 0)
    assert not store.snapshot_path_of(snapshot).exists()


def test_the_file_of_a_kept_snapshot_has_one_owner(api_client: Any, ana: Any, server: str, image: str) -> None:
    admin = api_client("admin")
    snapshot = str(Snapshot.objects.get().uuid)
    assert act(admin, f"{ROOT}/snapshots/{snapshot}", "os-unmanage", {}) == 400
    delete_snapshot(ana)
    found = admin.get(f"{ROOT}/manageable_snapshots/detail?host=novella@files%23files", headers=NEWEST)
    (file,) = found.json()["manageable-snapshots"]
    assert (file["safe_to_manage"], file["cinder_id"]) == (False, snapshot)
    requested = {"volume_id": root_volume(ana, server), "ref": {"source-name": snapshot}}
    assert admin.post(f"{ROOT}/os-snapshot-manage", {"snapshot": requested}).status_code == 409
    assert (Snapshot.objects.count(), store.snapshot_path_of(snapshot).exists()) == (0, True)


def test_snapshots_kept_by_an_image_count_against_the_quota(
    hosts: StorageHosts, api_client: Any, ana: Any, people: Any, server: str, image: str
) -> None:
    delete_snapshot(ana)
    limits = {"quota_set": {"snapshots": 1}}
    path = f"{ROOT}/os-quota-sets/{people.ana.project.id}"
    assert api_client("admin").put(path, limits).status_code == 200
    action = {"createImage": {"name": "one too many"}}
    assert ana.post(f"{SERVERS}/{server}/action", action).status_code == 403
    assert Image.objects.filter(deleted_at=None, properties__has_key="block_device_mapping").count() == 1
    assert ana.delete(f"{BASE}/{image}").status_code == 204
    assert ana.post(f"{SERVERS}/{server}/action", action).status_code == 202
    run_to_the_end(hosts)
    assert json.loads(Image.objects.get(name="one too many").properties["block_device_mapping"])[0]["volume_size"] == 1
