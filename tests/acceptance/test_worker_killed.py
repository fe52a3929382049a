"""`kill -9` at every place of build and delete: the work finishes by itself, once, without uncompensated effects."""

from __future__ import annotations

from contextlib import suppress

import pytest

from conductor.workflows.catalog import failpoints
from conductor.workflows.flows.build import BUILD_IN_CELL, BUILD_INSTANCES
from conductor.workflows.flows.delete import DELETE_INSTANCE
from tests.acceptance.cloud import GUESTS_PORTS, Cloud
from tests.fixtures.killed_workers import DIED_BEFORE_IT_ANSWERED, SIGKILLED
from tests.waiting import wait_until

BUILD_PLACES = failpoints(BUILD_INSTANCES) + failpoints(BUILD_IN_CELL)
DELETE_PLACES = failpoints(DELETE_INSTANCE)
# Only a server with an unconfirmed move has anything left at a source.
AFTER_A_MOVE = ("delete_instance.do.ForgetAtSource.answered", "delete_instance.do.ForgetAtSource.after")


@pytest.mark.parametrize("place", BUILD_PLACES)
def test_build_killed_at(place: str, mortal: Cloud) -> None:
    mortal.arm(place)
    with suppress(*DIED_BEFORE_IT_ANSWERED):  # what was committed counts all the same
        assert mortal.launch("web-1").status == 202
    assert mortal.wait_for_death() == SIGKILLED
    mortal.start()
    (server,) = wait_until("the server in the list", lambda: mortal.servers("web-1"))
    mortal.wait_for_status(server["id"], "ACTIVE")
    assert mortal.guests() == [server["id"]]
    assert len(mortal.rows("api", "select distinct consumer_id from placement_allocation")) == 1
    assert len(mortal.rows("api", f"select id from {GUESTS_PORTS}")) == 1
    wait_until("no work left", lambda: not _work_left(mortal), details=lambda: _work_left(mortal))
    assert mortal.call("DELETE", f"/compute/v2.1/servers/{server['id']}").status == 204
    mortal.wait_until_gone(server["id"])
    mortal.wait_until_clean()


@pytest.mark.parametrize("place", DELETE_PLACES)
def test_delete_killed_at(place: str, mortal: Cloud) -> None:
    uuid = mortal.launch("web-1").json["server"]["id"]
    mortal.wait_for_status(uuid, "ACTIVE")
    if place in AFTER_A_MOVE:
        moved = mortal.call("POST", f"/compute/v2.1/servers/{uuid}/action", {"migrate": None}, user="admin")
        assert moved.status == 202
        wait_until("the server moved", lambda: mortal.server(uuid)["status"] == "VERIFY_RESIZE")
    mortal.arm(place)
    with suppress(*DIED_BEFORE_IT_ANSWERED):
        assert mortal.call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
    assert mortal.wait_for_death() == SIGKILLED
    mortal.start()
    mortal.wait_until_gone(uuid)
    mortal.wait_until_clean()


def _work_left(cloud: Cloud) -> dict[str, list[object]]:
    left = cloud.leaked_resources()
    return {name: rows for name, rows in left.items() if name.endswith(("resourcelock", "runs", "build requests"))}
