"""Two releases at once, in real processes: every pairing works, nothing is lost, and runs end as they began."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from conductor.rpc.versions import SERVICE_VERSION
from conductor.workflows.flows.build import BUILD_IN_CELL
from tests.acceptance.deployment import Deployment
from tests.acceptance.previous_release.flows import NEWER
from tests.waiting import wait_until

OLD = {"DJANGO_SETTINGS_MODULE": "tests.acceptance.previous_release.settings"}
NEW = {"DJANGO_SETTINGS_MODULE": "tests.acceptance.previous_release.newer"}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """One host and one conductor of its cell, which starts with the previous release."""
    made = Deployment(
        tmp_path_factory.mktemp("upgrade"), webs=1, api_conductors=1, cells={"cell1": 1}, hosts={"cell1": ["h1"]},
        NOVELLA_RECONCILE_SECONDS="0",
    )  # fmt: skip
    made.of("cell1")[0].variables = OLD
    with made:
        yield made


def replace_conductor(cloud: Deployment, release: dict[str, str]) -> None:
    cloud.kill("cell1")
    cloud.restart("cell1", **release)


def launch(cloud: Deployment, name: str) -> str:
    answer = cloud.api().launch(name)
    assert answer.status == 202, answer.raw
    return str(answer.json["server"]["id"])


def build_of(cloud: Deployment, uuid: str) -> tuple[Any, ...]:
    """State, flow's version and position of a server's build in its cell."""
    wanted = f"flow = 'build_in_cell' and instance_uuid = '{uuid}'"
    rows = cloud.rows("cell1", f"select state, flow_version, position from journal_workflowrun where {wanted}")
    return (rows[0][0], int(rows[0][1]), int(rows[0][2])) if rows else ("", 0, 0)


def steps_of(cloud: Deployment, uuid: str) -> list[str]:
    """Return the names of the steps that a server's build has done, in order."""
    query = (
        "select s.name from journal_steprecord s join journal_workflowrun r on s.run_id = r.id "
        f"where r.flow = 'build_in_cell' and r.instance_uuid = '{uuid}' and s.state = 'done' order by s.id"
    )
    return [name for (name,) in cloud.rows("cell1", query)]


def answered_steps_of(cloud: Deployment, uuid: str) -> list[str]:
    """Return the steps of a server's build that a host has answered and no conductor has continued."""
    query = (
        "select s.name from journal_steprecord s join journal_workflowrun r on s.run_id = r.id where "
        f"r.flow = 'build_in_cell' and r.instance_uuid = '{uuid}' and s.state <> 'done' and s.answer is not null"
    )
    return [name for (name,) in cloud.rows("cell1", query)]


def park(cloud: Deployment, name: str, flow_version: int, position: int) -> str:
    """Return a server whose build waits for a host that has just died."""
    cloud.kill("host")
    uuid = launch(cloud, name)
    expected = ("waiting", flow_version, position)
    wait_until(
        f"{name} waits for its host", lambda: build_of(cloud, uuid) == expected, details=lambda: build_of(cloud, uuid)
    )
    return uuid


def log_of(cloud: Deployment, role: str) -> str:
    return cloud.of(role)[0].log_path.read_text(errors="replace")


def test_releases_side_by_side(cloud: Deployment) -> None:
    """An old conductor with a new host, then its run in a new one; a new run in an old one, then in a new one again."""
    steps = [step.name for step in BUILD_IN_CELL.steps]
    at_check, at_spawn = steps.index("CheckOnHost"), steps.index("SpawnOnHost")
    first = launch(cloud, "web-1")
    cloud.api().wait_for_status(first, "ACTIVE")
    # Restores the newer host's messages for a process that understands them.
    wait_until("a message was put back", lambda: "message put back: consoles_written" in log_of(cloud, "cell1"))
    assert cloud.rows("cell1", "select * from cell_db_consolelog") == []

    second = park(cloud, "web-2", BUILD_IN_CELL.version, at_spawn)
    replace_conductor(cloud, NEW)
    wait_until("the console of the first", lambda: cloud.rows("cell1", "select * from cell_db_consolelog"))
    cloud.restart("host")
    cloud.api().wait_for_status(second, "ACTIVE")
    assert steps_of(cloud, second) == [name for name in steps if name != "CheckOnHost"]  # an old conductor skips it
    assert build_of(cloud, second)[:2] == ("done", BUILD_IN_CELL.version)

    third = park(cloud, "web-3", NEWER.version, at_check + 1)
    replace_conductor(cloud, OLD)
    cloud.restart("host")
    # The host has agreed to build it, and the old conductor has kept the answer for another release.
    wait_until("the answer is kept", lambda: answered_steps_of(cloud, third) == ["CheckOnHost"], details=cloud.log_tail)
    assert third not in cloud.guests()
    assert "left to another release" in log_of(cloud, "cell1")
    assert build_of(cloud, third) == ("waiting", NEWER.version, at_check + 1)
    assert cloud.api().server(third)["status"] == "BUILD"
    replace_conductor(cloud, NEW)
    cloud.api().wait_for_status(third, "ACTIVE")
    assert steps_of(cloud, third) == [step.name for step in NEWER.steps]
    assert cloud.guests() == sorted([first, second, third])


def wait_for_version(cloud: Deployment, version: int) -> None:
    """Wait until the host has reported its version, and no conductor remembers another: a new one has read none."""
    query = "select version from cell_db_service where host = 'h1' and \"binary\" = 'nova-compute'"
    wait_until(f"h1 runs {version}", lambda: cloud.rows("cell1", query) == [(str(version),)])
    replace_conductor(cloud, NEW)


def test_a_host_of_the_release_before(cloud: Deployment) -> None:
    """A host gets only commands that it knows. Others fail with advice, and work after its upgrade."""
    cloud.kill("host")
    cloud.restart("host", **OLD)
    wait_for_version(cloud, 1)
    uuid = launch(cloud, "web-4")
    cloud.api().wait_for_status(uuid, "ACTIVE")

    assert cloud.api().call("POST", f"/compute/v2.1/servers/{uuid}/action", {"os-stop": None}).status == 202
    query = "select error from journal_workflowrun where flow = 'stop_instance' and state like 'failed%'"
    (error,) = wait_until("the stop fails", lambda: cloud.rows("cell1", query))[0]
    assert json.loads(error)["class"] == "HostTooOld"
    assert "Upgrade it" in json.loads(error)["message"]
    assert cloud.api().server(uuid)["status"] == "ACTIVE"

    cloud.kill("host")
    cloud.restart("host")
    wait_for_version(cloud, SERVICE_VERSION)
    assert cloud.api().call("POST", f"/compute/v2.1/servers/{uuid}/action", {"os-stop": None}).status == 202
    wait_until("it is off", lambda: cloud.api().server(uuid)["status"] == "SHUTOFF")
    messages = "select * from journal_outboxmessage"
    wait_until("no message is left", lambda: cloud.rows("cell1", messages) == [])
