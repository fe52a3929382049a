"""Costs of answers: as many queries for fifty servers as for five."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from django.db import connections

from tests.compute_rows import CELLS, Cloud, make_instance
from tests.counting import Captured, counted


def queries(call: Any) -> int:
    captured = [Captured(connections[alias]) for alias in connections]
    for capture in captured:
        capture.__enter__()
    assert call().status_code == 200
    for capture in captured:
        capture.__exit__(None, None, None)
    return sum(len(capture) for capture in captured)


@pytest.mark.parametrize("path", ["/compute/v2.1/servers", "/compute/v2.1/servers/detail"])
@pytest.mark.parametrize("who", ["ana", "admin"])
def test_lists_of_servers(who: str, path: str, cloud: Cloud, api_client: Any) -> None:
    context = cloud.people[who].context()
    client = api_client(who, version="2.96")

    def fill(count: int) -> None:
        for number in range(count):
            make_instance(context, f"cell{number % 2 + 1}", f"n-{number}", host=f"sim-{number % 2 + 1}-01")

    fill(5)
    few = queries(lambda: client.get(path))
    fill(45)
    assert len(client.get(path).json()["servers"]) == 50
    assert queries(lambda: client.get(path)) == few


def test_following_pages_gives_every_server_once(cloud: Cloud, api_client: Any) -> None:
    context = cloud.people.ana.context()
    made = {str(make_instance(context, f"cell{number % 3}", f"n-{number}").uuid) for number in range(7)}
    client, path, found = api_client("ana"), "/compute/v2.1/servers?limit=2", []
    while path:
        answer = client.get(path).json()
        found += [server["id"] for server in answer["servers"]]
        path = answer.get("servers_links", [{"href": ""}])[0]["href"].removeprefix("http://testserver")
    assert len(found) == 7
    assert set(found) == made


def test_a_launch_is_answered_after_one_commit(cloud: Cloud, api_client: Any) -> None:
    """The request, its workflow, its lock and its notification commit together, and no cell is written to."""
    client = api_client("ana", version="2.96")
    server = {"flavorRef": "1", "imageRef": str(cloud.image.uuid), "networks": "auto"}

    def launch(name: str) -> Any:
        return client.post("/compute/v2.1/servers", {"server": {**server, "name": name}})

    assert launch("first").status_code == 202  # the project has its security group by now
    with ExitStack() as stack:
        seen = {alias: stack.enter_context(counted(alias)) for alias in ("default", *CELLS)}
        assert launch("second").status_code == 202
    assert {alias: one.transactions for alias, one in seen.items()} == {"default": 1} | dict.fromkeys(CELLS, 0)
