"""Rebuilds over HTTP, of servers in every state that permits them: what the answer shows, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.image.calls import create, upload
from tests.fixtures.server_requests import SERVERS, act, ana, attach, attached, hosts, image, launched
from tests.fixtures.volume_requests import VOLUME, made
from tests.integration.flows.moving import run_to_the_end
from tests.integration.flows.storing import StorageHosts

__all__ = ["ana", "hosts", "image"]


@pytest.fixture
def other_image(ana: Any, image: str) -> str:
    uuid: str = create(ana, name="other")["id"]
    assert upload(ana, uuid, b"another system" * 1000).status_code == 204
    return uuid


STATUSES_AFTER = {(): "ACTIVE", ("stop",): "SHUTOFF", ("error",): "ACTIVE", ("stop", "error"): "ACTIVE"}


@pytest.mark.parametrize("has_volume", [False, True])
@pytest.mark.parametrize("steps", STATUSES_AFTER)
def test_a_rebuild_shows_the_new_image_at_once_and_ends_well(
    hosts: StorageHosts, api_client: Any, image: str, other_image: str, *, has_volume: bool, steps: Any
) -> None:
    ana, admin = api_client("ana", version="2.93"), api_client("admin", version="2.93")
    server, held = launched(hosts, ana, imageRef=image), set()
    if has_volume:
        held = {made(ana, "volumes", "volume", {"size": 1})["id"]}
        run_to_the_end(hosts)
        assert attach(ana, server, *held).status_code == 200
        run_to_the_end(hosts)
    for step in steps:
        body = {"stop": ("os-stop", None), "error": ("os-resetState", {"state": "error"})}[step]
        assert act(admin, server, *body).status_code == 202
        run_to_the_end(hosts)
    answer = act(ana, server, "rebuild", {"imageRef": other_image, "name": "new", "OS-DCF:diskConfig": "AUTO"})
    assert answer.status_code == 202, answer.content
    begun = answer.json()["server"]
    assert (begun["image"]["id"], begun["OS-DCF:diskConfig"], begun["status"]) == (other_image, "AUTO", "REBUILD")
    run_to_the_end(hosts)
    shown = ana.get(f"{SERVERS}/{server}").json()["server"]
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == (STATUSES_AFTER[steps], None)
    assert (shown["name"], shown["image"]["id"], shown["OS-DCF:diskConfig"]) == ("new", other_image, "AUTO")
    assert attached(ana, server) == held
    for volume in held:
        assert ana.get(f"{VOLUME}/{volume}").json()["volume"]["status"] == "in-use"
