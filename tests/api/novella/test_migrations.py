"""A live migration over our own API: progress, and actions on it."""

from __future__ import annotations

from typing import Any

from conductor.journal.models import AuditRecord, WorkflowRun
from conductor.services.server_migrations import live_migrations
from tests.fixtures.live_migrations import say_it_moves, until_it_moves
from tests.integration.flows.conftest import ana, hosts, launch
from tests.integration.flows.moving import CELL, Hosts, run_to_the_end

__all__ = ["ana", "hosts", "launch"]

# Bodies that change nothing, and the field that is named.
WRONG: tuple[tuple[str, dict[str, Any], str], ...] = (
    *(("downtime", {"milliseconds": amount}, "milliseconds") for amount in (0, -1, 10**9, "soon")),
    ("downtime", {}, "milliseconds"),
    *(("throttle", {"percent": amount}, "percent") for amount in (0, 101)),
    ("post-copy", {"percent": 40}, "percent"),
)


def test_a_live_migration_is_shown_and_steered(api_client: Any, people: Any, hosts: Hosts, launch: Any) -> None:
    admin, chi = api_client("admin"), api_client("chi")
    uuid = launch()
    run_uuid = live_migrations.begin(people.admin.context(), uuid)
    path = f"/api/workflows/{run_uuid}/migration"
    assert admin.post(f"{path}/throttle", {"percent": 40}).status_code == 400, "it is not there yet"
    run = until_it_moves(hosts, uuid)
    say_it_moves(run, throttle_percent=20)
    found = admin.get(path).json()["migration"]
    actions = {one["id"]: one for one in found["actions"]}
    assert (actions["throttle"]["why_not"], actions["throttle"]["suggested"], actions["throttle"]["most"]) == (
        "",
        40,
        99,
    )
    assert (found["status"], found["last"]["throttle_percent"], found["orders"]) == ("running", 20, [])
    mine = api_client("ana").get(path).json()["migration"]
    assert (mine["source"], mine["actions"][0]["why_not"]) == ("", "The role manager is required.")
    assert (chi.get(path).status_code, chi.post(f"{path}/abort").status_code) == (404, 403)
    for name, body, field in WRONG:
        refused = admin.post(f"{path}/{name}", body)
        assert (refused.status_code, field in refused.json()["error"]["message"]) == (400, True), (name, body)
    assert admin.post(f"{path}/explode").status_code == 404
    assert not WorkflowRun.objects.using(CELL).filter(flow="steer_live_migration").exists()
    ordered = admin.post(f"{path}/post-copy")
    assert ordered.status_code == 202
    say_it_moves(run, is_post_copy=1)
    late = admin.post(f"{path}/abort")
    assert (late.status_code, late.json()["error"]["message"]) == (
        409,
        "The server has switched to post-copy. The migration can no longer be stopped.",
    )
    assert AuditRecord.objects.get(action="server.live_migration.abort", user_name="admin").result == "refused"
    hosts.mute.clear()
    run_to_the_end(hosts)
    found = admin.get(path).json()["migration"]
    (order,) = found["orders"]
    assert (order["id"], order["state"], order["user_name"]) == ("post-copy", "done", "admin")
    assert order["run_uuid"] == ordered.json()["workflow"]["uuid"]
    assert (found["status"], found["actions"]) == ("completed", [])
    assert admin.post(f"{path}/throttle", {"percent": 40}).status_code == 409, "it is over"
    assert admin.get(f"/api/workflows/{order['run_uuid']}/migration").status_code == 404, "an order moves no guest"
