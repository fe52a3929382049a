"""Servers whose root disk is a volume: checks of sizes measure the volume; those of other servers, the flavor."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.image.calls import create, upload
from tests.fixtures.server_requests import SERVERS, act, ana, hosts, image, launched, status_of
from tests.integration.flows.moving import run_to_the_end
from tests.integration.flows.storing import StorageHosts

__all__ = ["ana", "hosts", "image"]


@pytest.fixture
def flavors(hosts: StorageHosts, api_client: Any) -> dict[int, str]:
    """Ids of flavors by the gigabytes of their disk."""
    admin = api_client("admin")
    for disk in (0, 1):
        flavor = {"id": f"disk{disk}", "name": f"disk{disk}", "ram": 512, "vcpus": 1, "disk": disk}
        assert admin.post("/compute/v2.1/flavors", {"flavor": flavor}).status_code == 200
    return {0: "disk0", 1: "disk1"}


@pytest.fixture
def larger_image(ana: Any, image: str) -> str:
    """An image that needs a disk of 2 GB."""
    uuid: str = create(ana, name="larger", min_disk=2)["id"]
    assert upload(ana, uuid, b"another system" * 1000).status_code == 204
    return uuid


def on_volume(image: str, size_gb: int = 3) -> dict[str, Any]:
    device = {
        "source_type": "image",
        "destination_type": "volume",
        "uuid": image,
        "volume_size": size_gb,
        "boot_index": 0,
    }
    return {"block_device_mapping_v2": [device]}


def test_a_rebuild_measures_the_image_against_the_volume(
    hosts: StorageHosts, ana: Any, image: str, flavors: dict[int, str], larger_image: str
) -> None:
    server = launched(hosts, ana, flavorRef=flavors[1], **on_volume(image))
    rebuilt = act(ana, server, "rebuild", {"imageRef": larger_image})
    assert rebuilt.status_code == 202, rebuilt.content
    run_to_the_end(hosts)
    assert status_of(ana, server) == "ACTIVE"
    small = launched(hosts, ana, flavorRef=flavors[1], **on_volume(image, size_gb=1))
    refused = act(ana, small, "rebuild", {"imageRef": larger_image})
    assert (refused.status_code, "1 GB" in refused.content.decode()) == (400, True)


def test_a_rebuild_measures_the_image_against_the_flavor_of_a_local_disk(
    hosts: StorageHosts, ana: Any, image: str, flavors: dict[int, str], larger_image: str
) -> None:
    server = launched(hosts, ana, flavorRef=flavors[1], imageRef=image)
    refused = act(ana, server, "rebuild", {"imageRef": larger_image})
    assert (refused.status_code, "disk is too small" in refused.content.decode()) == (400, True)


def test_only_a_local_disk_cannot_be_resized_to_none(
    hosts: StorageHosts, ana: Any, image: str, flavors: dict[int, str]
) -> None:
    backed = launched(hosts, ana, flavorRef=flavors[1], **on_volume(image))
    local = launched(hosts, ana, flavorRef=flavors[1], imageRef=image)
    assert act(ana, local, "resize", {"flavorRef": flavors[0]}).status_code == 400
    resized = act(ana, backed, "resize", {"flavorRef": flavors[0]})
    assert resized.status_code == 202, resized.content
    run_to_the_end(hosts)
    assert act(ana, backed, "confirmResize").status_code == 204
    run_to_the_end(hosts)
    shown = ana.get(f"{SERVERS}/{backed}").json()["server"]
    assert (shown["status"], shown["flavor"]["original_name"]) == ("ACTIVE", "disk0")


def test_members_boot_no_image_on_a_flavor_without_a_disk(
    hosts: StorageHosts, api_client: Any, ana: Any, image: str, flavors: dict[int, str], larger_image: str
) -> None:
    server = {"name": "web", "flavorRef": flavors[0], "networks": "none"}
    refused = ana.post(SERVERS, {"server": server | {"imageRef": image}})
    assert (refused.status_code, "volume-backed" in refused.content.decode()) == (403, True)
    launched(hosts, ana, flavorRef=flavors[0], **on_volume(larger_image))
    admin = api_client("admin", version="2.93")
    public = create(admin, name="public", visibility="public")["id"]
    assert upload(admin, public, b"a system" * 1000).status_code == 204
    launched(hosts, admin, flavorRef=flavors[0], imageRef=public)
