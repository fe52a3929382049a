"""Moving servers over HTTP: statuses, versions, policies, and messages of refusals."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.cell_db.models import Instance, Migration, Service
from conductor.journal.models import WorkflowRun
from tests.api.rights.callers import make_callers
from tests.api_client import ApiClient
from tests.fleet import silence
from tests.integration.flows.conftest import ana, hosts, launch
from tests.integration.flows.moving import CELL, Hosts, instance_of, migration_of, run_to_the_end, step_on

__all__ = ["ana", "hosts", "launch"]

ROOT = "/compute/v2.1"


@pytest.fixture
def server(launch: Any) -> str:
    uuid: str = launch()
    return uuid


@pytest.fixture
def act(api_client: Any, server: str) -> Any:
    """`act("ana", {…}, version="2.90")` sends an action to the server."""

    def sent(name: str, body: Any, *, version: str | None = None, to: str = "") -> Any:
        return api_client(name, version=version).post(f"{ROOT}/servers/{to or server}/action", body)

    return sent


def test_resize_and_its_two_ends(act: Any, server: str, hosts: Hosts, api_client: Any) -> None:
    answer = act("ana", {"resize": {"flavorRef": "2", "OS-DCF:diskConfig": "AUTO"}})
    assert (answer.status_code, answer.content) == (202, b"")
    assert 'rel="monitor"' in answer.headers["Link"]
    shown = api_client("ana").get(f"{ROOT}/servers/{server}").json()["server"]
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("RESIZE", "resize_prep")
    assert act("ana", {"resize": {"flavorRef": "3"}}).status_code == 409
    run_to_the_end(hosts)
    assert api_client("ana").get(f"{ROOT}/servers/{server}").json()["server"]["status"] == "VERIFY_RESIZE"
    assert act("ana", {"revertResize": None}).status_code == 202
    run_to_the_end(hosts)
    assert act("ana", {"resize": {"flavorRef": "2"}}).status_code == 202
    run_to_the_end(hosts)
    assert act("ana", {"confirmResize": None}).status_code == 204
    run_to_the_end(hosts)
    assert api_client("ana").get(f"{ROOT}/servers/{server}").json()["server"]["status"] == "ACTIVE"
    assert instance_of(server).disk_config == "AUTO"


@pytest.mark.parametrize(
    ("who", "body", "version", "answered"),
    [
        ("ana", {"resize": {"flavorRef": "1"}}, None, (400, "must change flavor")),
        ("ana", {"resize": {"flavorRef": "moon"}}, None, (400, "moon")),
        ("ana", {"resize": {}}, None, (400, "flavorRef")),
        ("ana", {"resize": {"flavorRef": "2", "fast": True}}, None, (400, "fast")),
        ("rea", {"resize": {"flavorRef": "2"}}, None, (403, "servers:resize")),
        ("chi", {"resize": {"flavorRef": "2"}}, None, (404, "could not be found")),
        ("ana", {"confirmResize": None}, None, (409, "vm_state active")),
        ("ana", {"revertResize": None}, None, (409, "vm_state active")),
        ("ana", {"migrate": None}, None, (403, "os-migrate-server:migrate")),
        ("admin", {"migrate": {"host": "sim-2"}}, "2.55", (400, "migrate")),
        ("admin", {"migrate": {"host": "moon"}}, "2.56", (400, "moon could not be found")),
        ("admin", {"migrate": {"host": 7}}, "2.56", (400, "host")),
        ("ana", {"os-migrateLive": {"host": None, "block_migration": "auto"}}, "2.34", (403, "migrate_live")),
        ("admin", {"os-migrateLive": {"host": None, "block_migration": "auto"}}, "2.24", (400, "disk_over_commit")),
        ("admin", {"os-migrateLive": {"block_migration": "auto"}}, "2.34", (400, "host")),
        ("admin", {"os-migrateLive": {"host": "moon", "block_migration": "auto"}}, "2.34", (400, "moon")),
        (
            "admin",
            {"os-migrateLive": {"host": "sim-2", "block_migration": False, "force": True}},
            "2.67",
            (400, "force"),
        ),
        ("admin", {"os-migrateLive": {"host": None, "block_migration": False, "force": True}}, "2.68", (400, "force")),
        ("admin", {"evacuate": {"onSharedStorage": False}}, "2.1", (400, "still in use")),
        ("admin", {"evacuate": {"onSharedStorage": False}}, "2.14", (400, "onSharedStorage")),
        ("ana", {"evacuate": {}}, "2.90", (403, "os-evacuate")),
    ],
)
def test_refused_moves_give_the_reason_and_change_nothing(
    who: str, body: Any, version: str | None, answered: tuple[int, str], act: Any, server: str
) -> None:
    status, words = answered
    answer = act(who, body, version=version)
    assert answer.status_code == status, answer.content
    (fault,) = answer.json().values()
    assert words in fault["message"]
    assert instance_of(server).task_state is None
    assert not Migration.objects.using(CELL).exists()
    assert not WorkflowRun.objects.using(CELL).exclude(flow="build_in_cell").exists()


def test_a_locked_server_is_moved_by_administrators_alone(act: Any, server: str) -> None:
    Instance.objects.using(CELL).filter(uuid=server).update(is_locked=True, locked_by="owner")
    assert act("ana", {"resize": {"flavorRef": "2"}}).status_code == 409
    assert act("admin", {"resize": {"flavorRef": "2"}}).status_code == 202


def test_cold_migration_to_a_named_host(act: Any, server: str, hosts: Hosts) -> None:
    home = instance_of(server).host
    away = ({"sim-1", "sim-2", "sim-3"} - {home}).pop()
    assert act("admin", {"migrate": {"host": home}}, version="2.56").status_code == 400
    assert act("admin", {"migrate": {"host": away}}, version="2.56").status_code == 202
    run_to_the_end(hosts)
    assert instance_of(server).host == away


def moving(act: Any, server: str, hosts: Hosts) -> str:
    """Return a live migration whose guest is on its way."""
    hosts.mute.add(instance_of(server).host or "")
    answer = act("admin", {"os-migrateLive": {"host": None, "block_migration": "auto"}}, version="2.34")
    assert answer.status_code == 202
    for _ in range(5):
        step_on(hosts)
    assert migration_of(server).status == "running"
    return str(migration_of(server).uuid)


def test_a_live_migration_is_listed_shown_and_aborted(act: Any, server: str, hosts: Hosts, api_client: Any) -> None:
    uuid = moving(act, server, hosts)
    admin = api_client("admin", version="2.80")
    (listed,) = admin.get(f"{ROOT}/servers/{server}/migrations").json()["migrations"]
    assert (listed["uuid"], listed["status"], listed["server_uuid"]) == (uuid, "running", server)
    assert {"memory_total_bytes", "disk_remaining_bytes", "user_id", "project_id"} <= listed.keys()
    shown = admin.get(f"{ROOT}/servers/{server}/migrations/{listed['id']}").json()["migration"]
    assert shown == listed
    assert api_client("admin", version="2.22").get(f"{ROOT}/servers/{server}/migrations").status_code == 404
    assert api_client("admin", version="2.23").delete(f"{ROOT}/servers/{server}/migrations/1").status_code in (404, 405)
    assert api_client("ana", version="2.80").delete(f"{ROOT}/servers/{server}/migrations/{uuid}").status_code == 403
    assert admin.delete(f"{ROOT}/servers/{server}/migrations/17").status_code == 404
    assert admin.delete(f"{ROOT}/servers/{server}/migrations/{listed['id']}").status_code == 202
    hosts.mute.clear()
    hosts.fails = lambda message, host: "MigrationAborted" if message == "live_migrate" else None
    run_to_the_end(hosts)
    assert migration_of(server).status == "cancelled"
    assert admin.get(f"{ROOT}/servers/{server}/migrations").json() == {"migrations": []}
    assert admin.get(f"{ROOT}/servers/{server}/migrations/{listed['id']}").status_code == 404
    actions = admin.get(f"{ROOT}/servers/{server}/os-instance-actions").json()["instanceActions"]
    assert {"live-migration", "live_migration_cancel"} <= {action["action"] for action in actions}


def test_a_live_migration_is_made_to_switch(act: Any, server: str, hosts: Hosts, api_client: Any) -> None:
    uuid = moving(act, server, hosts)
    path = f"{ROOT}/servers/{server}/migrations/{uuid}/action"
    admin = api_client("admin", version="2.80")
    assert admin.post(path, {"force_complete": True}).status_code == 400
    assert admin.post(path, {"force_complete": None}).status_code == 202
    hosts.mute.clear()
    run_to_the_end(hosts)
    assert migration_of(server).status == "completed"
    assert admin.post(path, {"force_complete": None}).status_code == 409


def test_all_moves_are_listed_with_filters_and_pages(
    act: Any, server: str, hosts: Hosts, api_client: Any, people: Any
) -> None:
    for flavor in ("2", "1"):
        assert act("ana", {"resize": {"flavorRef": flavor}}).status_code == 202
        run_to_the_end(hosts)
        assert act("ana", {"confirmResize": None}).status_code == 204
        run_to_the_end(hosts)
    admin = api_client("admin", version="2.80")
    listed = admin.get(f"{ROOT}/os-migrations").json()["migrations"]
    assert [one["status"] for one in listed] == ["confirmed", "confirmed"]
    assert listed[0]["created_at"] > listed[1]["created_at"]
    assert {"uuid", "migration_type", "user_id", "old_instance_type_id", "dest_host"} <= listed[0].keys()
    assert "uuid" not in api_client("admin", version="2.58").get(f"{ROOT}/os-migrations").json()["migrations"][0]
    page = admin.get(f"{ROOT}/os-migrations?limit=1").json()
    assert ([one["uuid"] for one in page["migrations"]], "migrations_links" in page) == ([listed[0]["uuid"]], True)
    rest = admin.get(f"{ROOT}/os-migrations?limit=1&marker={listed[0]['uuid']}").json()["migrations"]
    assert [one["uuid"] for one in rest] == [listed[1]["uuid"]]
    assert admin.get(f"{ROOT}/os-migrations?marker={server}").status_code == 400
    assert admin.get(f"{ROOT}/os-migrations?shoe=43").status_code == 400
    assert admin.get(f"{ROOT}/os-migrations?migration_type=live-migration").json() == {"migrations": []}
    assert len(admin.get(f"{ROOT}/os-migrations?instance_uuid={server}&status=confirmed").json()["migrations"]) == 2
    assert api_client("ana", version="2.80").get(f"{ROOT}/os-migrations").status_code == 403
    manager = ApiClient(str(make_callers(people)["manager"].token), version="2.80")
    seen = manager.get(f"{ROOT}/os-migrations").json()["migrations"]  # of the project, and no word of hosts
    ends = dict.fromkeys(("source_compute", "source_node", "dest_compute", "dest_node", "dest_host"))
    assert seen == [{**one, **ends} for one in listed]
    assert listed[0]["source_compute"]
    for name in ("host", "source_compute"):
        assert manager.get(f"{ROOT}/os-migrations?{name}={listed[0]['source_compute']}").status_code == 403


def test_evacuation_asks_for_a_fence_first(act: Any, server: str, hosts: Hosts, api_client: Any) -> None:
    home = instance_of(server).host or ""
    hosts.mute.add(home)
    silence(home)
    refused = act("admin", {"evacuate": {}}, version="2.68")
    assert (refused.status_code, "Cut its power" in refused.json()["conflictingRequest"]["message"]) == (409, True)
    admin = api_client("admin", version="2.68")
    (service,) = admin.get(f"{ROOT}/os-services?host={home}").json()["services"]
    assert admin.put(f"{ROOT}/os-services/{service['id']}", {"forced_down": True}).status_code == 200
    accepted = act("admin", {"evacuate": {"adminPass": "five-geese-fly"}}, version="2.68")
    assert (accepted.status_code, accepted.content) == (200, b"")
    run = WorkflowRun.objects.using(CELL).get(flow="evacuate_instance")
    assert "five-geese-fly" not in str(run.inputs)
    run_to_the_end(hosts)
    assert migration_of(server).status == "done"
    assert admin.put(f"{ROOT}/os-services/{service['id']}", {"forced_down": False}).status_code == 400
    assert Service.objects.using(CELL).get(host=home).is_forced_down
    assert admin.delete(f"{ROOT}/os-services/{service['id']}").status_code == 204
    assert admin.delete(f"{ROOT}/os-services/{service['id']}").status_code == 404
