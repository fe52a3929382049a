"""Volumes of servers over HTTP, step by step as clients go: shared ones, root ones, and ones attached to a rebuild."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.cell_db.models import Instance
from conductor.journal.models import WorkflowRun
from conductor.volume.models import Snapshot
from tests.api.image.calls import BASE, create, upload
from tests.fixtures.server_requests import SERVERS, ana, attach, attached, hosts, image, launched
from tests.fixtures.volume_requests import ROOT, VOLUME, made
from tests.integration.flows.moving import CELL, instance_of, run_to_the_end
from tests.integration.flows.storing import StorageHosts

__all__ = ["ana", "hosts", "image"]


def test_a_multi_attach_volume_is_attached_to_two_servers_resized_and_detached_one_by_one(
    hosts: StorageHosts, api_client: Any, ana: Any, image: str
) -> None:
    specs = {"multiattach": "<is> True"}
    made(api_client("admin"), "types", "volume_type", {"name": "shared", "extra_specs": specs}, status=200)
    volume = made(ana, "volumes", "volume", {"size": 1, "volume_type": "shared"})["id"]
    run_to_the_end(hosts)
    first, second = (launched(hosts, ana, imageRef=image) for _ in range(2))
    older = api_client("ana", version="2.59")
    assert attach(older, first, volume).status_code == 400
    for server in (first, second):
        assert attach(ana, server, volume).status_code == 200
        run_to_the_end(hosts)
    refused = attach(ana, first, volume)
    assert (refused.status_code, str(volume) in refused.content.decode()) == (400, True)
    shown = ana.get(f"{VOLUME}/{volume}").json()["volume"]
    assert (shown["status"], {one["server_id"] for one in shown["attachments"]}) == ("in-use", {first, second})
    assert attached(ana, first) == attached(ana, second) == {volume}
    for action in ({"resize": {"flavorRef": "2"}}, {"confirmResize": None}):
        assert ana.post(f"{SERVERS}/{first}/action", action).status_code in (202, 204)
        run_to_the_end(hosts)
    assert attached(ana, first) == attached(ana, second) == {volume}
    for server, left in ((first, {second}), (second, set())):
        assert ana.delete(f"{SERVERS}/{server}/os-volume_attachments/{volume}").status_code == 202
        run_to_the_end(hosts)
        shown = ana.get(f"{VOLUME}/{volume}").json()["volume"]
        assert {one["server_id"] for one in shown["attachments"]} == left
        assert (attached(ana, server), shown["status"]) == (set(), "in-use" if left else "available")
    assert ana.delete(f"{VOLUME}/{volume}").status_code == 202


def test_a_volume_that_is_not_shared_goes_to_one_server(hosts: StorageHosts, ana: Any, image: str) -> None:
    volume = made(ana, "volumes", "volume", {"size": 1})["id"]
    run_to_the_end(hosts)
    first, second = (launched(hosts, ana, imageRef=image) for _ in range(2))
    assert attach(ana, first, volume).status_code == 200
    run_to_the_end(hosts)
    assert attach(ana, second, volume).status_code == 400
    assert (attached(ana, first), attached(ana, second)) == ({volume}, set())


BESIDE = {
    "pause": None,
    "rebuild": {"imageRef": ""},
    "migrate": None,
    "reboot": {"type": "SOFT"},
    "shelve": None,
}


@pytest.mark.parametrize("name", BESIDE)
def test_an_image_of_a_root_volume_is_refused_beside_another_action(
    name: str, hosts: StorageHosts, api_client: Any, ana: Any, image: str
) -> None:
    device = {"source_type": "image", "destination_type": "volume", "uuid": image, "volume_size": 1, "boot_index": 0}
    server = launched(hosts, ana, block_device_mapping_v2=[device])
    body = {"imageRef": image} if name == "rebuild" else BESIDE[name]
    who = api_client("admin", version="2.93") if name == "migrate" else ana
    begun = who.post(f"{SERVERS}/{server}/action", {name: body})
    assert begun.status_code == 202, begun.content
    runs = WorkflowRun.objects.using(CELL).count()
    images = len(ana.get(BASE).json()["images"])
    refused = ana.post(f"{SERVERS}/{server}/action", {"createImage": {"name": "kept"}})
    assert refused.status_code == 409, refused.content
    assert (Snapshot.objects.count(), WorkflowRun.objects.using(CELL).count()) == (0, runs)
    assert len(ana.get(BASE).json()["images"]) == images


@pytest.mark.parametrize("vm_state", ["active", "error"])
def test_a_server_with_a_volume_is_rebuilt_and_ends_active(
    vm_state: str, hosts: StorageHosts, ana: Any, image: str
) -> None:
    server = launched(hosts, ana, imageRef=image)
    volume = made(ana, "volumes", "volume", {"size": 1})["id"]
    run_to_the_end(hosts)
    assert attach(ana, server, volume).status_code == 200
    run_to_the_end(hosts)
    other = create(ana, name="other")["id"]
    assert upload(ana, other, b"another system" * 1000).status_code == 204
    Instance.objects.using(CELL).filter(uuid=server).update(vm_state=vm_state)
    wanted = {"imageRef": other, "OS-DCF:diskConfig": "AUTO"}
    answer = ana.post(f"{SERVERS}/{server}/action", {"rebuild": wanted})
    assert answer.status_code == 202, answer.content
    shown = answer.json()["server"]
    assert (shown["status"], shown["image"]["id"], shown["OS-DCF:diskConfig"]) == ("REBUILD", other, "AUTO")
    run_to_the_end(hosts)
    shown = ana.get(f"{SERVERS}/{server}").json()["server"]
    assert (shown["status"], shown["image"]["id"], shown["OS-DCF:diskConfig"]) == ("ACTIVE", other, "AUTO")
    assert attached(ana, server) == {volume}
    assert volume in hosts.plugged[server]
    assert ana.get(f"{ROOT}/volumes/{volume}").json()["volume"]["status"] == "in-use"
    assert instance_of(server).task_state is None
