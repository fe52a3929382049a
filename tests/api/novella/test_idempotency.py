"""Requests under a key: done once, answered alike, and the key is free after a refusal."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connections

from conductor.api_db.models import BuildRequest, ClientRequest
from conductor.core.errors import Invalid
from conductor.db.transactions import database_now
from conductor.journal.models import AuditRecord, WorkflowRun
from conductor.services.operations import idempotency
from conductor.services.operations.idempotency import IdempotentRequest, StoredResponse
from conductor.volume.models import Volume
from tests import factories
from tests.compute_rows import make_cloud
from tests.waiting import WAIT_SECONDS

pytestmark = pytest.mark.usefixtures("databases")

KEY = {"Idempotency-Key": "shop-order-0001"}
VOLUMES = "/volume/v3/volumes"


@pytest.fixture
def launch(people: Any) -> dict[str, Any]:
    image = make_cloud(people).image
    return {"server": {"name": "web", "flavorRef": "1", "imageRef": str(image.uuid), "networks": "none"}}


def create(client: Any, body: Any, path: str = "/compute/v2.1/servers", **headers: str) -> Any:
    return client.post(path, body, headers=KEY | headers)


def has_its_action(client: Any, answer: Any) -> bool:
    """Whether the server has an action of the request's id."""
    server, request_id = answer.json()["server"]["id"], answer.headers["x-openstack-request-id"]
    assert request_id == answer.headers["x-compute-request-id"]
    found = client.get(f"/compute/v2.1/servers/{server}/os-instance-actions/{request_id}")
    return bool(found.status_code == 200 and found.json()["instanceAction"]["action"] == "create")


def test_a_launch_that_is_repeated_launches_nothing(api_client: Any, launch: dict[str, Any]) -> None:
    ana = api_client("ana", version="2.90")
    first, second = (create(ana, launch) for _ in range(2))
    assert (first.status_code, second.status_code) == (202, 202)
    # with its password, which a client that lost the first response could not get otherwise
    assert second.json() == first.json()
    assert (second.headers["Location"], second.headers["Link"]) == (first.headers["Location"], first.headers["Link"])
    assert ("Idempotency-Replayed" in first.headers, second.headers["Idempotency-Replayed"]) == (False, "true")
    assert has_its_action(ana, first)
    assert has_its_action(ana, second)
    assert BuildRequest.objects.count() == 1
    row = ClientRequest.objects.get()
    assert not any(first.json()["server"]["adminPass"] in str(value) for value in vars(row).values())
    assert WorkflowRun.objects.filter(flow="build_instances").get().uuid == row.uuid


def test_another_body_under_the_same_key_is_refused(api_client: Any, launch: dict[str, Any]) -> None:
    ana = api_client("ana", version="2.90")
    create(ana, launch)
    other = create(ana, {"server": {**launch["server"], "name": "db"}})
    assert (other.status_code, "another request" in other.json()["conflictingRequest"]["message"]) == (409, True)
    again = create(api_client("ana", version="2.80"), launch)  # another version is another request
    assert (again.status_code, BuildRequest.objects.count()) == (409, 1)


def test_an_idempotency_key_belongs_to_one_user(api_client: Any, launch: dict[str, Any]) -> None:
    answers = [create(api_client(who, version="2.90"), launch).json()["server"]["id"] for who in ("ana", "bo")]
    assert len(set(answers)) == BuildRequest.objects.count() == 2


def test_a_refused_request_leaves_its_key_free(api_client: Any, launch: dict[str, Any]) -> None:
    ana = api_client("ana", version="2.90")
    assert create(ana, {"server": {**launch["server"], "flavorRef": "99"}}).status_code == 400
    assert ClientRequest.objects.count() == 0
    assert create(ana, launch).status_code == 202


@pytest.mark.parametrize("key", ["short", "x" * 129, "with a space in it", "späße-überall"])
def test_an_invalid_idempotency_key_is_named(api_client: Any, launch: dict[str, Any], key: str) -> None:
    answer = api_client("ana", version="2.90").post("/compute/v2.1/servers", launch, headers={"Idempotency-Key": key})
    assert (answer.status_code, "Idempotency-Key" in answer.json()["badRequest"]["message"]) == (400, True)
    assert BuildRequest.objects.count() == ClientRequest.objects.count() == 0


def test_a_volume_commits_together_with_its_answer(api_client: Any, people: Any, monkeypatch: Any) -> None:
    ana, body = api_client("ana"), {"volume": {"size": 1}}
    whole = idempotency._seal

    def crash(*_: Any) -> str:
        raise RuntimeError("the process dies before the answer is kept")

    monkeypatch.setattr(idempotency, "_seal", crash)
    assert create(ana, body, VOLUMES).status_code == 500
    assert Volume.objects.count() == ClientRequest.objects.count() == 0
    monkeypatch.setattr(idempotency, "_seal", whole)
    first, second = (create(ana, body, VOLUMES) for _ in range(2))
    assert first.json() == second.json()
    assert Volume.objects.count() == 1


def test_a_repeated_request_finds_what_a_dead_process_created(api_client: Any, launch: dict[str, Any]) -> None:
    ana = api_client("ana", version="2.90")
    first = create(ana, launch).json()["server"]["id"]
    ClientRequest.objects.update(answer="")  # it died after its commit
    assert create(ana, launch).status_code == 409  # the outcome is not known yet
    ClientRequest.objects.update(claimed_until=database_now(-1))
    again = create(ana, launch)
    assert (again.status_code, again.json()["server"]["id"], BuildRequest.objects.count()) == (202, first, 1)
    assert has_its_action(ana, again)


def test_of_concurrent_equal_requests_one_is_executed(people: Any) -> None:
    context, done, barrier = people.ana.context(), [], threading.Barrier(4)
    heard: list[str] = []

    def work(name: str) -> StoredResponse:
        done.append(name)
        return StoredResponse(202, {"n": len(done)})

    def ask() -> None:
        barrier.wait(WAIT_SECONDS)
        try:
            found = idempotency.once(context, IdempotentRequest("one-key-for-all", "the same"), work)
            heard.append(str(found.response.body))
        except idempotency.KeyInUse:
            heard.append("in use")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert len(done) == 1
    assert len(heard) == 4
    assert set(heard) <= {"{'n': 1}", "in use"}


def test_after_a_failure_of_unknown_effect_the_key_stays_taken(people: Any) -> None:
    context, names = people.ana.context(), []

    def fail(name: str) -> StoredResponse:
        names.append(name)
        raise OSError("in the middle of it")

    requested = IdempotentRequest("a-key-that-fails", "the same")
    for _ in range(2):
        with pytest.raises(OSError, match="middle"):
            idempotency.once(context, requested, fail)
    assert len(names) == 2
    assert len(set(names)) == 1


def test_answers_are_forgotten_after_a_day(people: Any) -> None:
    context, requested = people.ana.context(), IdempotentRequest("a-key-of-yesterday", "the same")
    for number in (1, 2):
        found = idempotency.once(context, requested, lambda name: StoredResponse(200, number))  # noqa: B023
        assert (found.response.body, found.is_replayed) == (number, False)
        ClientRequest.objects.update(expires_at=database_now(-1))
    with pytest.raises(Invalid):
        idempotency.once(context, IdempotentRequest("another-key", ""), _refuse)
    assert ClientRequest.objects.count() == 0


def _refuse(name: str) -> StoredResponse:
    raise Invalid("no")


def test_an_intervention_that_is_repeated_is_on_record_once(api_client: Any, people: Any) -> None:
    factories.cells()
    body = {"reason": "maintenance"}
    path = "/api/plugins/filter/ComputeFilter/quarantine"
    first, second = (create(api_client("admin"), body, path) for _ in range(2))
    assert (first.status_code, second.status_code) == (200, 200)  # without a key the second one is a 409
    assert first.json() == second.json()
    assert AuditRecord.objects.filter(action__contains="quarantine").count() == 1
