"""Schedulers in separate processes: conductors call them, and call another one if one dies or hangs."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.acceptance.broker_thief import BrokerThief
from tests.acceptance.deployment import Deployment
from tests.acceptance.nursery import Nursery
from tests.chaos.points import ARMED, SCHEDULER_PLACES
from tests.waiting import wait_until

SERVICE = {"NOVELLA_SCHEDULER": "service", "NOVELLA_SCHEDULER_SECONDS": "2", "NOVELLA_SCHEDULER_CALLS": "10000"}
DECISIONS = "select summary ->> 'scheduler', is_successful, run_uuid from api_db_schedulingdecision"
WAITING = """select flow from journal_workflowrun
    where state = 'waiting' and waits_for ->> 'cause' = 'scheduler'"""


@pytest.fixture(scope="module", params=["redis", "rabbitmq"])
def cloud(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, nursery: Nursery
) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp(request.param)
    made = Deployment(
        folder,
        broker=request.param,
        webs=1,
        api_conductors=1,
        schedulers=2,
        cells={"cell1": 1},
        hosts={"cell1": ("h1", "h2")},
        nursery=nursery,
        **SERVICE,
        NOVELLA_CRASH_AT=f"@{folder / ARMED}",
    )
    with made:
        yield made


def deciders(cloud: Deployment) -> set[int]:
    """Return the ids of the processes that have decided."""
    return {int(worker.split(":")[1]) for worker, *_ in cloud.rows("api", DECISIONS)}


def pid_of(cloud: Deployment, role: str, index: int) -> int:
    child = cloud.of(role)[index].child
    assert child is not None
    return child.pid


def launch(cloud: Deployment, name: str) -> str:
    answer = cloud.api().launch(name)
    assert answer.status == 202, answer.raw
    uuid: str = answer.json["server"]["id"]
    return uuid


def test_each_decision_is_made_once_while_schedulers_die_or_hang(cloud: Deployment) -> None:
    uuids = [launch(cloud, f"web-{number}") for number in range(4)]
    for uuid in uuids:
        cloud.api().wait_for_status(uuid, "ACTIVE")
    schedulers = {pid_of(cloud, "scheduler", index) for index in range(2)}
    assert deciders(cloud) <= schedulers

    # One that hangs keeps its connection and its queue: only the deadline tells.
    first = cloud.of("scheduler")[0].child
    assert first is not None
    first.send_signal(signal.SIGSTOP)
    uuids += [launch(cloud, f"hung-{number}") for number in range(4)]
    for uuid in uuids[4:]:
        cloud.api().wait_for_status(uuid, "ACTIVE")
    first.send_signal(signal.SIGCONT)

    cloud.kill("scheduler", 0)
    uuids += [launch(cloud, f"killed-{number}") for number in range(4)]
    for uuid in uuids[8:]:
        cloud.api().wait_for_status(uuid, "ACTIVE")

    # Without any a build waits, and says so; the next scheduler that starts answers it.
    cloud.kill("scheduler", 1)
    uuids.append(launch(cloud, "waiting"))
    wait_until("a build waits for a scheduler", lambda: cloud.rows("api", WAITING), details=cloud.log_tail)
    cloud.restart("scheduler", 0)
    cloud.api().wait_for_status(uuids[-1], "ACTIVE")

    runs = [run for _, _, run in cloud.rows("api", DECISIONS)]
    assert len(runs) == len(set(runs)) == len(uuids), "one decision for each request"
    for uuid in uuids:
        assert cloud.api().call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
    cloud.wait_until_clean()
    cloud.restart("scheduler", 1)


@pytest.mark.parametrize("place", SCHEDULER_PLACES)
def test_a_scheduler_killed_at_any_place_leaves_one_decision(cloud: Deployment, place: str) -> None:
    armed = cloud.folder / ARMED
    armed.write_text(place)
    uuid = launch(cloud, place.replace(".", "-"))
    cloud.api().wait_for_status(uuid, "ACTIVE")
    wait_until("a scheduler has died", lambda: cloud.dead() != [], details=cloud.log_tail)
    assert not armed.exists()
    (dead,) = cloud.dead()
    of_it = f"{DECISIONS} where summary ->> 'instance_uuids' like '%{uuid}%'"
    assert len(cloud.rows("api", of_it)) == 1
    cloud.restart("scheduler", [member.name for member in cloud.of("scheduler")].index(dead))
    assert cloud.api().call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
    cloud.wait_until_clean()


def test_a_scheduler_ends_cleanly_and_another_one_takes_its_place(cloud: Deployment) -> None:
    assert cloud.kill("scheduler", 0, signal.SIGTERM) == 0
    uuid = launch(cloud, "after-the-end")
    cloud.api().wait_for_status(uuid, "ACTIVE")
    cloud.restart("scheduler", 0)
    assert cloud.api().call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
    cloud.wait_until_clean()


def test_a_resize_and_an_unshelve_call_a_scheduler(cloud: Deployment) -> None:
    uuid = launch(cloud, "moved-1")
    cloud.api().wait_for_status(uuid, "ACTIVE")
    flavors = cloud.api().call("GET", "/compute/v2.1/flavors").json["flavors"]
    larger = next(item["id"] for item in flavors if item["name"] == "small")
    path = f"/compute/v2.1/servers/{uuid}/action"
    assert cloud.api().call("POST", path, {"resize": {"flavorRef": larger}}).status == 202
    wait_for(cloud, uuid, "VERIFY_RESIZE")
    assert cloud.api().call("POST", path, {"confirmResize": None}).status == 204
    wait_for(cloud, uuid, "ACTIVE")
    assert cloud.api().call("POST", path, {"shelve": None}).status == 202
    wait_for(cloud, uuid, "SHELVED_OFFLOADED")
    assert cloud.api().call("POST", path, {"unshelve": None}).status == 202
    wait_for(cloud, uuid, "ACTIVE")
    of_it = f"{DECISIONS} where summary ->> 'instance_uuids' like '%{uuid}%'"
    assert len(cloud.rows("api", of_it)) == 3
    assert cloud.api().call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
    cloud.wait_until_clean()


def wait_for(cloud: Deployment, uuid: str, status: str) -> None:
    def has_it() -> bool:
        server = cloud.api().server(uuid)
        assert server["status"] != "ERROR", server
        return bool(server["status"] == status and server["OS-EXT-STS:task_state"] is None)

    wait_until(f"{uuid} {status}", has_it, details=cloud.log_tail)


def test_each_role_works_with_an_account_of_its_own_that_reaches_no_others_queue(cloud: Deployment) -> None:
    urls = cloud.make_broker_accounts("--conductors", "--scheduler", "scheduler-1")
    assert set(urls) == {"webs", "conductors", "scheduler scheduler-1"}
    assert cloud.kill("scheduler", 1, signal.SIGTERM) == 0
    users = {"web": "webs", "api": "conductors", "scheduler": "scheduler scheduler-1"}
    for role, label in users.items():
        cloud.kill(role, 0, signal.SIGTERM)
        cloud.restart(role, 0, NOVELLA_BROKER_URL=urls[label])
    uuid = launch(cloud, "own-accounts")
    wait_for(cloud, uuid, "ACTIVE")
    assert cloud.api().call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
    cloud.wait_until_clean()
    for label, queues in {
        "webs": ("scheduler.scheduler-1", "scheduler.scheduler-2"),
        "scheduler scheduler-1": ("scheduler.scheduler-2", "conductor", "conductor.cell1", "compute.h1"),
    }.items():
        thief = BrokerThief(urls[label])
        for queue in queues:
            assert thief.is_kept_from_reading(queue), (label, queue)
    for role in users:
        cloud.kill(role, 0, signal.SIGTERM)
        cloud.restart(role, 0)
    cloud.restart("scheduler", 1)
