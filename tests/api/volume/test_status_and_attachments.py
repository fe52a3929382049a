"""Attached volumes whose status an administrator sets: their attachments decide what may be done with them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fixtures.server_requests import SERVERS, ana, attach, attached, hosts, image, launched
from tests.fixtures.volume_requests import NEWEST, ROOT, VOLUME, act, made
from tests.integration.flows.moving import run_to_the_end
from tests.integration.flows.storing import StorageHosts

__all__ = ["ana", "hosts", "image"]


@pytest.fixture
def disk(hosts: StorageHosts, ana: Any) -> str:
    """A volume of ana's."""
    uuid = str(made(ana, "volumes", "volume", {"size": 1})["id"])
    run_to_the_end(hosts)
    return uuid


@pytest.fixture
def first(hosts: StorageHosts, api_client: Any, ana: Any, image: str, disk: str) -> str:
    """ana's server with the volume, which an administrator calls available."""
    server = launched(hosts, ana, imageRef=image)
    assert attach(ana, server, disk).status_code == 200
    run_to_the_end(hosts)
    assert act(api_client("admin"), f"{VOLUME}/{disk}", "os-reset_status", {"status": "available"}) == 202
    return server


def servers_of(client: Any, volume: str) -> set[str]:
    return {one["server_id"] for one in client.get(f"{VOLUME}/{volume}").json()["volume"]["attachments"]}


def test_no_second_server_gets_it(hosts: StorageHosts, ana: Any, image: str, disk: str, first: str) -> None:
    second = launched(hosts, ana, imageRef=image)
    refused = attach(ana, second, disk)
    assert (refused.status_code, disk in refused.content.decode()) == (400, True)
    device = {"source_type": "volume", "destination_type": "volume", "uuid": disk, "boot_index": -1}
    root = {"source_type": "image", "destination_type": "local", "uuid": image, "boot_index": 0}
    third = {"name": "third", "flavorRef": "1", "networks": "none", "imageRef": image}
    refused = ana.post(SERVERS, {"server": third | {"block_device_mapping_v2": [root, device]}})
    assert (refused.status_code, disk in refused.content.decode()) == (400, True)
    requested = {"volume_uuid": disk, "instance_uuid": second}
    assert ana.post(f"{ROOT}/attachments", {"attachment": requested}, headers=NEWEST).status_code == 400
    run_to_the_end(hosts)
    assert (attached(ana, first), attached(ana, second)) == ({disk}, set())
    assert servers_of(ana, disk) == {first}
    assert disk in hosts.plugged[first]


FOR_FREE_ONES: dict[str, dict[str, Any]] = {
    "os-extend": {"new_size": 2},
    "os-reserve": {},
    "os-unmanage": {},
    "os-force_delete": {},
    "os-update_readonly_flag": {"readonly": True},
    "os-retype": {"new_type": "shared"},
}


@pytest.mark.parametrize("status", ["available", "error"])
@pytest.mark.parametrize("action", FOR_FREE_ONES)
def test_actions_that_need_an_available_volume_are_refused(
    action: str, status: str, api_client: Any, ana: Any, disk: str, first: str
) -> None:
    admin = api_client("admin")
    specs = {"multiattach": "<is> True"}
    made(admin, "types", "volume_type", {"name": "shared", "extra_specs": specs}, status=200)
    assert act(admin, f"{VOLUME}/{disk}", "os-reset_status", {"status": status}) == 202
    assert act(admin, f"{VOLUME}/{disk}", action, FOR_FREE_ONES[action], "3.41") == 400
    assert ana.get(f"{VOLUME}/{disk}").json()["volume"]["status"] == status
    assert servers_of(ana, disk) == {first}


@pytest.mark.parametrize("status", ["available", "error"])
def test_an_attached_volume_is_neither_deleted_nor_transferred_nor_reimaged(
    status: str, api_client: Any, ana: Any, image: str, disk: str, first: str
) -> None:
    assert act(api_client("admin"), f"{VOLUME}/{disk}", "os-reset_status", {"status": status}) == 202
    assert ana.delete(f"{VOLUME}/{disk}").status_code == 400
    assert ana.post(f"{ROOT}/volume-transfers", {"transfer": {"volume_id": disk}}, headers=NEWEST).status_code == 400
    assert act(ana, f"{VOLUME}/{disk}", "os-reimage", {"image_id": image}, "3.68") == 400
    assert servers_of(ana, disk) == {first}


def test_a_server_that_is_deleted_gives_it_back(hosts: StorageHosts, ana: Any, disk: str, first: str) -> None:
    assert ana.delete(f"{SERVERS}/{first}").status_code == 204
    run_to_the_end(hosts)
    shown = ana.get(f"{VOLUME}/{disk}").json()["volume"]
    assert (shown["status"], shown["attachments"]) == ("available", [])
