"""Decisions over HTTP: visibility, filters and pages, and evaluating them again on the hosts of that time."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from conductor.api_db.models import HostSnapshot, SchedulingDecision
from conductor.cell_db.models import Service
from conductor.core.context import system_context
from conductor.core.errors import NoValidHost
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.placement.models import Allocation
from conductor.scheduler import manager
from tests.fleet import add_host

HOSTS = ("quokka", "wombat", "numbat")


@pytest.fixture
def fleet(databases: None) -> None:
    add_host("quokka", size=(8, 4096, 100))
    add_host("wombat", size=(8, 2048, 100))
    add_host("numbat", size=(8, 1024, 100))
    Service.objects.using("cell1").filter(host="numbat").update(is_disabled=True)


def decided(person: Any, count: int = 1, *, memory_mb: int = 1500, **values: Any) -> SchedulingDecision:
    flavor = FlavorSpec("1", "small", 1, memory_mb, root_gb=1)
    spec = RequestSpec(person.project.id, person.user.id, flavor, **values)
    key = str(uuid4())
    with suppress(NoValidHost):
        manager.select_destinations(
            system_context(), spec, [str(uuid4()) for _ in range(count)], step_key=key, run_uuid=str(uuid4())
        )
    return SchedulingDecision.objects.get(step_key=key)


def test_lists_are_newest_first_and_narrowed(people: Any, api_client: Any, fleet: None) -> None:
    first = decided(people.ana)
    failed = decided(people.ana, memory_mb=10**6)
    other = decided(people.chi, memory_mb=100)
    admin = api_client("admin")

    def listed(query: str = "") -> list[str]:
        answer = admin.get(f"/api/decisions?{query}")
        assert answer.status_code == 200, answer.content
        return [one["uuid"] for one in answer.json()["decisions"]]

    assert listed() == [str(row.uuid) for row in (other, failed, first)]
    assert listed("outcome=failed") == [str(failed.uuid)]
    assert listed(f"run_uuid={first.run_uuid}") == [str(first.uuid)]
    assert listed(f"project_id={people.chi.project.id}") == [str(other.uuid)]
    assert listed("since=2999-01-01T00:00:00Z") == []
    assert listed("until=2999-01-01T00:00:00Z&outcome=successful") == [str(other.uuid), str(first.uuid)]
    assert listed(f"instance_uuid={uuid4()}") == []
    page = admin.get("/api/decisions?limit=2").json()
    assert [one["uuid"] for one in page["decisions"]] == [str(other.uuid), str(failed.uuid)]
    assert f"marker={failed.uuid}" in page["decisions_links"][0]["href"]
    assert listed(f"limit=2&marker={failed.uuid}") == [str(first.uuid)]
    mine = api_client("ana").get("/api/decisions").json()["decisions"]
    assert [one["uuid"] for one in mine] == [str(failed.uuid), str(first.uuid)]


@pytest.mark.parametrize(
    ("who", "query", "status", "word"),
    [
        ("ana", "colour=red", 400, "colour"),
        ("ana", "outcome=maybe", 400, "successful, failed"),
        ("ana", "since=yesterday", 400, "yesterday"),
        ("ana", "limit=-1", 400, "limit"),
        ("ana", "project_id=other", 403, "administrators"),
        ("ana", "marker=00000000-0000-4000-8000-000000000000", 404, "Marker"),
        (None, "", 401, ""),
    ],
)
def test_invalid_queries_are_refused(
    people: Any, api_client: Any, who: str | None, query: str, status: int, word: str
) -> None:
    answer = api_client(who).get(f"/api/decisions?{query}")
    assert (answer.status_code, word in answer.content.decode()) == (status, True), answer.content


def test_operators_see_hosts_weights_and_every_verdict(people: Any, api_client: Any, fleet: None) -> None:
    row = decided(people.ana)
    admin = api_client("admin")
    path = f"/api/decisions/{row.uuid}"
    one = admin.get(path).json()["decision"]
    assert (one["can_be_replayed"], one["is_detailed"], one["num_hosts"]) == (True, True, 3)
    assert one["request"]["flavor"]["memory_mb"] == 1500
    hosts = admin.get(f"{path}/hosts?limit=2").json()
    assert ([host["host"] for host in hosts["hosts"]], hosts["total"]) == (["quokka", "wombat"], 3)
    assert "marker=2" in hosts["hosts_links"][0]["href"]
    rest = admin.get(f"{path}/hosts?limit=2&marker=2").json()
    assert ([host["host"] for host in rest["hosts"]], "hosts_links" in rest) == (["numbat"], False)
    assert admin.get(f"{path}/hosts?verdict=rejected&rejected_by=placement").json()["total"] == 1
    assert admin.get(f"{path}/hosts?verdict=odd").status_code == 400
    assert admin.get(f"{path}/hosts?marker=odd").status_code == 400
    assert [weight["host"] for weight in admin.get(f"{path}/weights").json()["weights"]] == ["quokka", "wombat"]


def test_the_matrix_shows_the_hosts_at_the_time_of_the_decision(people: Any, api_client: Any, fleet: None) -> None:
    row = decided(people.ana, memory_mb=3000)
    add_host("newcomer")
    Service.objects.using("cell1").update(is_disabled=True)
    admin = api_client("admin")
    found = admin.get(f"/api/decisions/{row.uuid}/matrix").json()["matrix"]
    assert [(host["host"], host["misses"]) for host in found["hosts"]] == [("quokka", 0), ("wombat", 1), ("numbat", 2)]
    assert (found["num_hosts"], found["is_partial"], found["is_same_plugins"]) == (3, False, True)
    cells = {cell["filter"]: cell for cell in found["hosts"][2]["cells"]}
    assert {name for name, cell in cells.items() if cell["outcome"] == "reject"} == {"placement", "ComputeFilter"}
    assert cells["placement"]["need"] == "3000 MB"
    assert found["filters"][0] == {"filter": "placement", "rejected": 2, "alone": 1}
    page = admin.get(f"/api/decisions/{row.uuid}/matrix?limit=1").json()
    assert [host["host"] for host in page["matrix"]["hosts"]] == ["quokka"]
    next_page = admin.get(f"/api/decisions/{row.uuid}/matrix?limit=5&marker=quokka/quokka").json()
    assert [host["host"] for host in next_page["matrix"]["hosts"]] == ["wombat", "numbat"]
    assert "hosts_links" not in next_page
    assert admin.get(f"/api/decisions/{row.uuid}/matrix?marker=moon/moon").status_code == 404


def test_a_host_is_explained_with_the_reason_for_its_choice_or_rejection(
    people: Any, api_client: Any, fleet: None
) -> None:
    row = decided(people.ana)
    admin = api_client("admin")
    chosen = admin.get(f"/api/decisions/{row.uuid}/hosts/quokka").json()["host"]
    assert chosen["was_chosen"]
    assert (chosen["nodes"][0]["place"]["rank"], chosen["nodes"][0]["place"]["of"]) == (1, 2)
    not_chosen = admin.get(f"/api/decisions/{row.uuid}/hosts/numbat").json()["host"]
    assert (not_chosen["was_chosen"], not_chosen["nodes"][0]["misses"]) == (False, 2)
    assert not_chosen["nodes"][0]["place"] is None
    assert admin.get(f"/api/decisions/{row.uuid}/hosts/moon").status_code == 404


def test_remedies_that_make_a_request_fit(people: Any, api_client: Any, fleet: None) -> None:
    row = decided(people.ana, memory_mb=5000)
    found = api_client("admin").get(f"/api/decisions/{row.uuid}/fits-if").json()
    assert [(host["host"], host["misses"]) for host in found["nearest"]] == [
        ("quokka", 1),
        ("wombat", 1),
        ("numbat", 2),
    ]
    assert found["fits_if"][0] == {
        "kind": "request",
        "text": "It fits with 4096 MB of memory instead of 5000.",
        "change": {"memory_mb": 4096},
        "num_hosts": 1,
    }
    mine = api_client("ana").get(f"/api/decisions/{row.uuid}/fits-if").json()
    assert (mine["nearest"], mine["fits_if"]) == ([], found["fits_if"][:1])


def test_evaluating_again_claims_nothing(people: Any, api_client: Any, fleet: None) -> None:
    row = decided(people.ana)
    held = list(Allocation.objects.values_list("pk", "amount"))
    path = f"/api/decisions/{row.uuid}/evaluate"
    again = api_client("admin").post(path).json()["evaluation"]
    assert (again["fleet"], again["chosen"], again["differs"]) == ("then", ["quokka"], False)
    Service.objects.using("cell1").filter(host="quokka").update(is_disabled=True)
    now = api_client("admin").post(path, {"fleet": "now"}).json()["evaluation"]
    assert (now["chosen"], now["differs"], now["is_successful"]) == (["wombat"], True, True)
    mine = api_client("ana").post(path, {"fleet": "now"}).json()["evaluation"]
    assert (mine["chosen"], mine["placed"]) == ([], 1)
    assert api_client("ana").post(path, {"fleet": "tomorrow"}).status_code == 400
    assert api_client("ana").post(path, {"host": "quokka"}).status_code == 400
    assert SchedulingDecision.objects.count() == 1
    assert list(Allocation.objects.values_list("pk", "amount")) == held


@pytest.mark.parametrize("memory_mb", [1500, 5000])
def test_the_owner_reads_no_hosts_name_anywhere(people: Any, api_client: Any, fleet: None, memory_mb: int) -> None:
    row = decided(people.ana, 2, memory_mb=memory_mb, ignore_hosts=("wombat",))
    ana = api_client("ana")
    answers = [
        ana.get("/api/decisions"),
        ana.get(f"/api/decisions/{row.uuid}"),
        ana.get(f"/api/decisions/{row.uuid}/fits-if"),
        ana.post(f"/api/decisions/{row.uuid}/evaluate"),
        ana.post(f"/api/decisions/{row.uuid}/evaluate", {"fleet": "now"}),
    ]
    for answer in answers:
        assert answer.status_code == 200, answer.content
        assert not any(name in answer.content.decode() for name in HOSTS), answer.content
    for part in ("hosts", "hosts/quokka", "weights", "matrix"):
        assert ana.get(f"/api/decisions/{row.uuid}/{part}").status_code == 403
    for part in ("", "/fits-if"):
        assert api_client("chi").get(f"/api/decisions/{row.uuid}{part}").status_code == 404
    assert api_client("chi").post(f"/api/decisions/{row.uuid}/evaluate").status_code == 404


def test_discarded_decisions_are_reported(people: Any, api_client: Any, fleet: None, settings: Any) -> None:
    row = decided(people.ana)
    HostSnapshot.objects.all().delete()
    answer = api_client("admin").get(f"/api/decisions/{row.uuid}/matrix")
    assert (answer.status_code, "no longer stored" in answer.content.decode()) == (404, True)
    settings.NOVELLA_DECISION_SAMPLE = 0.0
    slim = decided(people.ana)
    assert api_client("admin").get(f"/api/decisions/{slim.uuid}").json()["decision"]["can_be_replayed"] is False
    for fleet_of in ("then", "now"):
        answer = api_client("admin").post(f"/api/decisions/{slim.uuid}/evaluate", {"fleet": fleet_of})
        assert (answer.status_code, "stored" in answer.content.decode()) == (404, True)
