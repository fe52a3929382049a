"""Whole builds on simulated hosts: many at once, failures and alternates, no host at all, deletes in between."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cloud import Cloud, copy_seeded
from tests.acceptance.nursery import Nursery
from tests.waiting import take_time, wait_until


def fail_calls(cloud: Cloud, call: str, **rule: Any) -> None:
    """Make calls of the simulated hypervisors fail; they read the file at each call."""
    (cloud.data_dir / "faults.json").write_text(json.dumps({call: rule}))


@pytest.fixture(scope="module")
def kept_cloud(seeded_data: Path, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    folder = copy_seeded(seeded_data, tmp_path_factory.mktemp("quick") / "var")
    variables = {"NOVELLA_SIMULATED_LATENCY_SECONDS": "0.05", "NOVELLA_SIMULATED_HOSTS": "4"}
    cloud = Cloud(folder, nursery, **variables).start()
    yield cloud
    cloud.kill_9()


@pytest.fixture
def quick_cloud(kept_cloud: Cloud) -> Iterator[Cloud]:
    """A cloud whose hosts work, without servers; the same for each test."""
    yield kept_cloud
    (kept_cloud.data_dir / "faults.json").unlink(missing_ok=True)
    for server in kept_cloud.servers():
        assert kept_cloud.call("DELETE", f"/compute/v2.1/servers/{server['id']}").status == 204
        kept_cloud.wait_until_gone(server["id"])
    kept_cloud.wait_until_clean()


def steps_of(cloud: Cloud, uuid: str) -> list[tuple[Any, ...]]:
    sql = (
        "select s.name, s.direction, s.attempt, s.state from journal_steprecord s join journal_workflowrun r "
        "on r.id = s.run_id where r.flow = 'build_in_cell' "
        f"and r.instance_uuid = '{uuid.replace('-', '')}' order by s.id"
    )
    return cloud.rows("cell1", sql) + cloud.rows("cell2", sql)


def ports_of_attempts(cloud: Cloud, uuid: str) -> list[list[dict[str, Any]]]:
    """Return the ports that each attempt of a build had."""
    sql = (
        "select s.result from journal_steprecord s join journal_workflowrun r on r.id = s.run_id "
        "where s.name = 'PlugNetworks' and s.direction = 'do' "
        f"and r.instance_uuid = '{uuid.replace('-', '')}' order by s.attempt"
    )
    return [json.loads(result)["ports"] for (result,) in cloud.rows("cell1", sql) + cloud.rows("cell2", sql)]


def test_fifty_concurrent_builds_all_become_active(new_cloud: Callable[..., Cloud]) -> None:
    cloud = new_cloud(NOVELLA_SIMULATED_HOSTS="8", NOVELLA_SIMULATED_LATENCY_SECONDS="0.2").start()
    answer = cloud.launch("fleet", min_count=50, max_count=50)
    assert answer.status == 202
    assert len(cloud.servers("fleet")) == 50  # all listed at once, before any has a host
    wait_until("all fifty active", lambda: [s["status"] for s in cloud.servers("fleet")] == ["ACTIVE"] * 50)
    servers = cloud.servers("fleet")
    assert sorted(s["name"] for s in servers) == sorted(f"fleet-{n}" for n in range(1, 51))
    addresses = [port["addr"] for s in servers for port in s["addresses"]["private"]]
    assert len(set(addresses)) == 50
    assert cloud.guests() == sorted(s["id"] for s in servers)
    hosts = Counter(cloud.server(s["id"])["OS-EXT-SRV-ATTR:host"] for s in servers)
    assert max(hosts.values()) - min(hosts.values()) <= 2  # spread, not stacked
    for server in servers:
        assert cloud.call("DELETE", f"/compute/v2.1/servers/{server['id']}").status == 204
    wait_until("all gone", lambda: not cloud.servers("fleet"))
    cloud.wait_until_clean()


def test_after_a_failed_host_the_next_alternate_of_the_cell_builds_the_server(quick_cloud: Cloud) -> None:
    cloud = quick_cloud
    fail_calls(cloud, "spawn", fail_times=1, error="DriverError", message="the disk is on fire")
    uuid = cloud.launch("web-1").json["server"]["id"]
    cloud.wait_for_status(uuid, "ACTIVE")
    seen = steps_of(cloud, uuid)
    assert ("SpawnOnHost", "do", 1, "failed") in seen
    assert ("SpawnOnHost", "undo", 1, "undone") in seen
    assert ("SpawnOnHost", "do", 2, "done") in seen
    assert ("PlugNetworks", "undo", 1, "undone") not in seen
    first, second = ports_of_attempts(cloud, uuid)
    assert first == second
    (port,) = second
    bound = f"select binding_host from network_port where uuid = '{port['port_uuid'].replace('-', '')}'"
    assert cloud.rows("api", bound) == [(cloud.server(uuid)["OS-EXT-SRV-ATTR:host"],)]
    assert cloud.guests() == [uuid]
    assert len(cloud.rows("api", "select distinct provider_id from placement_allocation")) == 1


def test_a_host_that_refuses_the_check_is_skipped_before_anything_is_prepared(quick_cloud: Cloud) -> None:
    cloud = quick_cloud
    fail_calls(cloud, "check_build", fail_times=1, error="DriverError", message="no memory is free now")
    uuid = cloud.launch("web-1").json["server"]["id"]
    cloud.wait_for_status(uuid, "ACTIVE")
    assert steps_of(cloud, uuid) == [
        ("ClaimDestination", "do", 1, "done"),
        ("CheckOnHost", "do", 1, "failed"),
        ("ClaimDestination", "undo", 1, "undone"),
        ("ClaimDestination", "do", 2, "done"),
        ("CheckOnHost", "do", 2, "done"),
        ("PlugNetworks", "do", 2, "done"),
        ("SpawnOnHost", "do", 2, "done"),
        ("MarkActive", "do", 2, "done"),
    ]
    assert cloud.guests() == [uuid]
    (decision,) = cloud.call("GET", f"/api/decisions?instance_uuid={uuid}", user="admin").json["decisions"]
    shown = cloud.call("GET", f"/api/decisions/{decision['uuid']}", user="admin").json
    (selection,) = shown["decision"]["selections"]
    assert (selection["fate"], selection["reason"]) == ("refused", "no memory is free now")
    host = cloud.server(uuid)["OS-EXT-SRV-ATTR:host"]
    used = next(one for one in selection["alternates"] if one["fate"] == "used")
    assert used == {"host": host, "fate": "used", "reason": ""}


def test_after_three_failed_hosts_the_fault_is_the_first_cause_and_nothing_is_leaked(quick_cloud: Cloud) -> None:
    cloud = quick_cloud
    fail_calls(cloud, "spawn", fail_times=99, error="DriverError", message="the disk is on fire")
    uuid = cloud.launch("web-1").json["server"]["id"]
    server = cloud.wait_for_status(uuid, "ERROR")
    assert server["fault"]["message"] == "the disk is on fire"
    assert Counter(steps_of(cloud, uuid))[("SpawnOnHost", "do", 3, "failed")] == 1
    assert not any(attempt > 3 for _, _, attempt, _ in steps_of(cloud, uuid))
    cloud.wait_until_clean()


def test_an_error_of_the_request_itself_is_not_retried_on_other_hosts(quick_cloud: Cloud) -> None:
    cloud = quick_cloud
    fail_calls(cloud, "spawn", fail_times=99, error="BuildAborted", message="the image is damaged")
    uuid = cloud.launch("web-1").json["server"]["id"]
    assert cloud.wait_for_status(uuid, "ERROR")["fault"]["message"] == "the image is damaged"
    assert {attempt for _, _, attempt, _ in steps_of(cloud, uuid)} == {1}
    cloud.wait_until_clean()


def test_a_server_without_a_valid_host_is_in_cell0_with_the_decision_as_fault(quick_cloud: Cloud) -> None:
    cloud = quick_cloud
    admin = cloud.call(
        "POST",
        "/compute/v2.1/flavors",
        {"flavor": {"name": "monster", "ram": 10**7, "vcpus": 500, "disk": 1}},
        user="admin",
    )
    assert admin.status == 200, admin.raw
    cloud.call(
        "PUT", "/compute/v2.1/os-quota-sets/" + _project(cloud), {"quota_set": {"cores": -1, "ram": -1}}, user="admin"
    )
    answer = cloud.launch("web-1", flavor="monster")
    assert answer.status == 202, answer.raw
    uuid = answer.json["server"]["id"]
    server = cloud.wait_for_status(uuid, "ERROR")
    assert "No valid host" in server["fault"]["message"]
    (row,) = cloud.rows("cell0", "select decision_uuid from cell_db_instancefault")
    assert row[0] is not None
    cloud.wait_until_clean()
    assert cloud.call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
    cloud.wait_until_gone(uuid)


def _project(cloud: Cloud) -> str:
    return str(cloud.rows("api", "select id from identity_project where name = 'demo'")[0][0])


@pytest.fixture(scope="module")
def slow_cloud(seeded_data: Path, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    folder = copy_seeded(seeded_data, tmp_path_factory.mktemp("slow") / "var")
    cloud = Cloud(folder, nursery, NOVELLA_SIMULATED_LATENCY_SECONDS="0.3").start()
    yield cloud
    cloud.kill_9()


@pytest.mark.parametrize("pause", [0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8])
def test_delete_at_any_moment_of_a_build_wins(pause: float, slow_cloud: Cloud) -> None:
    uuids = [slow_cloud.launch(f"web-{n}").json["server"]["id"] for n in range(3)]
    take_time(pause)
    for uuid in uuids:
        assert slow_cloud.call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
        again = slow_cloud.call("DELETE", f"/compute/v2.1/servers/{uuid}")
        assert again.status in {204, 404}
    for uuid in uuids:
        slow_cloud.wait_until_gone(uuid)
    slow_cloud.wait_until_clean()
