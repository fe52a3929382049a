"""Images of other projects: an id that a tenant names is looked up for its project, and again before the fetch."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import Instance, InstanceFault
from conductor.image.models import Image
from conductor.journal.models import OutboxMessage, WorkflowRun
from tests.api.image.calls import BASE, create, patch, upload
from tests.compute_rows import seed_cloud
from tests.integration.flows.moving import CELL, Hosts, run_to_the_end

SERVERS = "/compute/v2.1/servers"
VOLUMES = "/volume/v3/volumes"


@pytest.fixture
def hosts(people: Any, settings: Any, tmp_path: Any) -> Hosts:
    settings.NOVELLA_IMAGE_DIR = tmp_path / "images"
    settings.NOVELLA_DATA = tmp_path
    seed_cloud(people, "sim-1")
    return Hosts()


@pytest.fixture
def ana(api_client: Any) -> Any:
    return api_client("ana")


@pytest.fixture
def chi(api_client: Any) -> Any:
    return api_client("chi", version="2.87")


@pytest.fixture
def kernel(hosts: Hosts, ana: Any) -> str:
    """A private image of ana's project."""
    image_id: str = create(ana, name="secrets", disk_format="aki", container_format="aki")["id"]
    assert upload(ana, image_id, b"payroll").status_code == 204
    return image_id


@pytest.fixture
def lend(people: Any, ana: Any, kernel: str) -> Callable[[], Callable[[], None]]:
    """`withdraw = lend()` shares the kernel with chi's project until `withdraw()`."""

    def lent() -> Callable[[], None]:
        lab = people.chi.project.id
        assert ana.post(f"{BASE}/{kernel}/members", {"member": lab}).status_code == 200

        def withdraw() -> None:
            assert ana.delete(f"{BASE}/{kernel}/members/{lab}").status_code == 204

        return withdraw

    return lent


def bootable(chi: Any, **values: Any) -> str:
    image_id: str = create(chi, name="bait", **values)["id"]
    assert upload(chi, image_id).status_code == 204
    return image_id


def launch(chi: Any, image: str, **values: Any) -> Any:
    wanted = {"name": "loot", "flavorRef": "1", "imageRef": image, "networks": "none", **values}
    return chi.post(SERVERS, {"server": wanted})


def running(chi: Any, hosts: Hosts) -> str:
    answer = launch(chi, bootable(chi))
    assert answer.status_code == 202, answer.content
    run_to_the_end(hosts)
    uuid: str = answer.json()["server"]["id"]
    assert Instance.objects.using(CELL).get(uuid=uuid).vm_state == "active"
    return uuid


def reaches_a_host(image_id: str) -> bool:
    return any(image_id in json.dumps(sent.body) for sent in OutboxMessage.objects.using(CELL).all())


@pytest.mark.parametrize("name", ["kernel_id", "ramdisk_id"])
def test_an_image_cannot_name_a_kernel_that_its_owner_does_not_see(kernel: str, chi: Any, name: str) -> None:
    refused = chi.post(BASE, {"name": "bait", "disk_format": "raw", "container_format": "bare", name: kernel})
    assert refused.status_code == 400
    assert not Image.objects.filter(name="bait").exists()
    bait = create(chi, name="bait")["id"]
    assert patch(chi, bait, {"op": "add", "path": f"/{name}", "value": kernel}).status_code == 400
    assert Image.objects.get(uuid=bait).properties == {}


def test_no_server_boots_from_an_image_that_is_not_shared_any_more(
    kernel: str, chi: Any, hosts: Hosts, lend: Callable[[], Callable[[], None]]
) -> None:
    uuid = running(chi, hosts)
    withdraw = lend()
    bait = bootable(chi, kernel_id=kernel)
    withdraw()
    runs = WorkflowRun.objects.using(CELL).count()
    assert launch(chi, bait).status_code == 400
    device = {"source_type": "image", "destination_type": "volume", "uuid": bait, "volume_size": 1, "boot_index": 0}
    assert launch(chi, "", block_device_mapping_v2=[device]).status_code == 400
    for action in ({"rebuild": {"imageRef": bait}}, {"rescue": {"rescue_image_ref": bait}}):
        assert chi.post(f"{SERVERS}/{uuid}/action", action).status_code == 400, action
    assert InstanceMapping.objects.count() == 1
    assert WorkflowRun.objects.using(CELL).count() == runs
    assert not reaches_a_host(kernel)


def test_image_metadata_of_a_volume_gives_no_access_to_other_images(kernel: str, chi: Any, hosts: Hosts) -> None:
    made = chi.post(VOLUMES, {"volume": {"size": 1, "imageRef": bootable(chi)}})
    assert made.status_code == 202, made.content
    volume = made.json()["volume"]["id"]
    run_to_the_end(hosts)
    for reported in ({"kernel_id": kernel}, {"image_id": kernel}):
        action = {"os-set_image_metadata": {"metadata": reported}}
        assert chi.post(f"{VOLUMES}/{volume}/action", action).status_code == 200
    device = {"source_type": "volume", "destination_type": "volume", "uuid": volume, "boot_index": 0}
    assert launch(chi, "", block_device_mapping_v2=[device]).status_code == 400
    action = {"os-unset_image_metadata": {"key": "kernel_id"}}
    assert chi.post(f"{VOLUMES}/{volume}/action", action).status_code == 200
    server = launch(chi, "", block_device_mapping_v2=[device]).json()["server"]["id"]
    run_to_the_end(hosts)
    assert chi.post(f"{SERVERS}/{server}/action", {"rescue": {}}).status_code == 409
    assert not reaches_a_host(kernel)


@pytest.mark.parametrize("is_part", [True, False])
def test_access_to_an_image_is_checked_again_before_the_host_fetches_it(
    kernel: str, chi: Any, ana: Any, hosts: Hosts, lend: Callable[[], Callable[[], None]], is_part: bool
) -> None:
    withdraw = lend()
    if is_part:
        image = bootable(chi, kernel_id=kernel)
    else:
        image = kernel
        Image.objects.filter(uuid=kernel).update(container_format="bare", disk_format="raw")
    answer = launch(chi, image)
    assert answer.status_code == 202, answer.content
    withdraw()
    run_to_the_end(hosts)
    uuid = answer.json()["server"]["id"]
    assert Instance.objects.using(CELL).get(uuid=uuid).vm_state == "error"
    assert kernel in InstanceFault.objects.using(CELL).get(instance_uuid=uuid).message
    assert not reaches_a_host(kernel)


def test_an_image_of_a_server_does_not_share_the_servers_kernel(kernel: str, chi: Any, hosts: Hosts) -> None:
    """Properties that were written before they were checked count as little."""
    bait = bootable(chi)
    Image.objects.filter(uuid=bait).update(properties={"kernel_id": kernel, "ramdisk_id": kernel})
    assert launch(chi, bait).status_code == 400
    assert not InstanceMapping.objects.exists()


def test_references_of_another_project_do_not_prevent_the_delete_of_an_image(
    kernel: str, ana: Any, chi: Any, lend: Callable[[], Callable[[], None]]
) -> None:
    lend()
    for visibility in ("private", "community", "shared"):
        create(chi, kernel_id=kernel, visibility=visibility)
    own = create(ana, kernel_id=kernel)["id"]
    refused = ana.delete(f"{BASE}/{kernel}")
    assert refused.status_code == 409
    assert own in refused.content.decode()
    assert ana.delete(f"{BASE}/{own}").status_code == 204
    assert ana.delete(f"{BASE}/{kernel}").status_code == 204


@pytest.mark.parametrize("kind", ["createImage", "createBackup"])
@pytest.mark.parametrize("name", ["kernel_id", "ramdisk_id", "os_glance_importing_to_stores", "locations", "owner"])
def test_an_image_made_of_a_server_gets_no_property_that_the_image_api_refuses(
    kernel: str, chi: Any, hosts: Hosts, kind: str, name: str
) -> None:
    server = running(chi, hosts)
    before, runs = Image.objects.count(), WorkflowRun.objects.using(CELL).count()
    rotation = {"backup_type": "daily", "rotation": 1} if kind == "createBackup" else {}
    action = {kind: {"name": "bait", "metadata": {name: kernel}, **rotation}}
    assert chi.post(f"{SERVERS}/{server}/action", action).status_code == 400
    assert (Image.objects.count(), WorkflowRun.objects.using(CELL).count()) == (before, runs)


def test_an_image_made_of_a_server_names_its_maker_and_its_server(people: Any, chi: Any, hosts: Hosts) -> None:
    server = running(chi, hosts)
    forged = {"user_id": people.ana.user.id, "instance_uuid": "f" * 32, "base_image_ref": "f" * 32, "colour": "blue"}
    answer = chi.post(f"{SERVERS}/{server}/action", {"createImage": {"name": "bait", "metadata": forged}})
    properties = Image.objects.get(uuid=answer.json()["image_id"]).properties
    assert (properties["user_id"], properties["instance_uuid"]) == (people.chi.user.id, server)
    assert properties["base_image_ref"] == Instance.objects.using(CELL).get(uuid=server).image["image_id"]
    assert properties["colour"] == "blue"


def test_an_image_made_of_a_root_volume_inherits_only_what_its_maker_may_set(
    kernel: str, chi: Any, hosts: Hosts
) -> None:
    volume = chi.post(VOLUMES, {"volume": {"size": 1, "imageRef": bootable(chi)}}).json()["volume"]["id"]
    run_to_the_end(hosts)
    device = {"source_type": "volume", "destination_type": "volume", "uuid": volume, "boot_index": 0}
    server = launch(chi, "", block_device_mapping_v2=[device]).json()["server"]["id"]
    run_to_the_end(hosts)
    row = Instance.objects.using(CELL).get(uuid=server)
    forged = {"kernel_id": kernel, "os_glance_importing_to_stores": "x", "locations": "x", "hw_disk_bus": "virtio"}
    Instance.objects.using(CELL).filter(uuid=server).update(image={**row.image, "properties": forged})
    answer = chi.post(f"{SERVERS}/{server}/action", {"createImage": {"name": "bait"}})
    properties = Image.objects.get(uuid=answer.json()["image_id"]).properties
    assert not {*forged} & {*properties} - {"hw_disk_bus"}
    assert properties["hw_disk_bus"] == "virtio"
