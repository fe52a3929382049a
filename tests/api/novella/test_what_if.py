"""Simulations (what-if) over HTTP and from the command line; nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from conductor.api_db.models import CellMapping, Quota
from conductor.cell_db.models import Service
from conductor.image.models import Image
from conductor.journal.models import WorkflowRun
from tests.fixtures.what_if import everything
from tests.integration.flows.conftest import ana, hosts, launch
from tests.integration.flows.moving import CELL, Hosts, instance_of, run_to_the_end

__all__ = ["ana", "hosts", "launch"]

NAMES = ("sim-1", "sim-2", "sim-3")


@pytest.fixture
def nothing_changes(hosts: Hosts) -> Iterator[None]:
    from tests.fixtures.destinations import used

    before, held = everything(), [used(name) for name in NAMES]
    yield
    after = everything()
    changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    assert set(changed) <= {"default.identity.Token"}
    assert [used(name) for name in NAMES] == held


def asked(client: Any, status: int = 200, **body: Any) -> Any:
    image = str(Image.objects.get(name="simulated-linux").uuid)
    answer = client.post("/api/what-if/launch", {"flavor": "1", "image": image, **body})
    assert answer.status_code == status, answer.content
    return answer.json().get("fit", answer.json())


@pytest.mark.usefixtures("nothing_changes")
def test_a_launch_that_fits_says_where_to_operators_only(api_client: Any) -> None:
    fit = asked(api_client("admin"), count=3)
    assert (fit["fits"], fit["would_be_done"], fit["placed"], fit["num_fitting"]) == (True, True, 3, 3)
    assert set(fit["hosts"]) <= set(NAMES)
    assert len(fit["weights"]) == 3
    mine = asked(api_client("ana"), count=3)
    assert (mine["fits"], mine["placed"], mine["hosts"], mine["weights"]) == (True, 3, [], [])


@pytest.mark.usefixtures("nothing_changes")
def test_one_that_does_not_says_how_many_and_what_would_help(api_client: Any) -> None:
    fit = asked(api_client("ana"), count=4, flavor_changes={"memory_mb": 65000})
    assert (fit["fits"], fit["placed"], fit["num_instances"]) == (False, 3, 4)
    texts = [one["text"] for one in fit["fits_if"]]
    assert "It fits with 3 instances instead of 4." in texts
    assert "It fits with 32768 MB of memory instead of 65000." in texts
    assert not any(name in json.dumps(fit) for name in NAMES)
    more = asked(api_client("admin"), count=4, flavor_changes={"memory_mb": "65000"}, fleet={"add": [{"count": 1}]})
    assert (more["fits"], sorted(more["hosts"])) == (True, ["new-1", *NAMES])


@pytest.mark.usefixtures("nothing_changes")
def test_only_operators_change_the_fleet_of_a_question(api_client: Any) -> None:
    big = {
        "count": 2,
        "like": "sim-1",
        "values": {"memory_mb": 10**6, "availability_zone": "new", "traits": ["CUSTOM_A"]},
    }
    changes = {"memory_mb": 500_000, "extra_specs": {"trait:CUSTOM_A": "required"}}
    fit = asked(api_client("admin"), count=2, flavor_changes=changes, fleet={"add": [big]})
    assert (fit["fits"], sorted(fit["hosts"])) == (True, ["new-1", "new-2"])
    gone = asked(api_client("admin"), fleet={"remove": ["sim-1", "sim-2"], "disable": ["sim-3"]})
    assert (gone["fits"], gone["num_hosts"]) == (False, 1)
    assert any(one["kind"] == "fleet" and "enabled on host sim-3" in one["text"] for one in gone["fits_if"])
    assert asked(api_client("ana"), status=403, fleet={"remove": ["sim-1"]})


@pytest.mark.usefixtures("nothing_changes")
def test_hosts_of_closed_cells_are_rejected_with_the_reason(api_client: Any) -> None:
    CellMapping.objects.filter(name=CELL).update(is_disabled=True, disabled_reason="new racks")
    fit = asked(api_client("admin"))
    assert (fit["fits"], fit["num_hosts"], fit["funnel"][0]["filter"], fit["funnel"][0]["rejected"]) == (
        False,
        3,
        "closed_cells",
        3,
    )
    assert [(one["kind"], one["text"], one["num_hosts"]) for one in fit["fits_if"]] == [
        ("fleet", "It fits if cell cell1 takes new servers again.", 3)
    ]
    mine = asked(api_client("ana"))
    assert (mine["advice"][0], mine["fits_if"]) == ("3 of 3 hosts: cell cell1 is closed to new servers.", [])
    assert "new racks" not in json.dumps(mine), "the operator's words are not for tenants"
    assert asked(api_client("admin"), fleet={"add": [{"count": 1}]})["hosts"] == ["new-1"], "new hosts are in service"


@pytest.mark.usefixtures("nothing_changes")
def test_quota_and_policy_refusals_are_reported_not_raised(api_client: Any, people: Any) -> None:
    fit = asked(api_client("rea"))
    assert (fit["fits"], fit["would_be_done"]) == (True, False)
    assert fit["refusals"] == [
        {"rule": "policy", "message": "Policy doesn't allow os_compute_api:servers:create to be performed."}
    ]
    named = asked(api_client("ana"), host="sim-1")
    assert [one["rule"] for one in named["refusals"]] == ["policy"]
    many = asked(api_client("ana"), count=101)
    assert (many["fits"], many["would_be_done"], many["within_quota"]) == (True, False, 100)
    assert many["refusals"][0]["rule"] == "quota"
    assert "Quota exceeded for instances" in many["refusals"][0]["message"]


@pytest.mark.usefixtures("nothing_changes")
@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"flavor": "none"}, "Flavor none"),
        ({"image": str(uuid4())}, "requested image"),
        ({"count": 0}, "count"),
        ({"count": "many"}, "count"),
        ({"availability_zone": "moon"}, "zone"),
        ({"flavor_changes": {"vcpus": 0}}, "vcpus"),
        ({"flavor_changes": {"colour": 1}}, "colour"),
        ({"fleet": {"remove": ["moon"]}}, "fleet.remove"),
        ({"fleet": {"add": [{"count": 1, "like": "moon"}]}}, "fleet.add.like"),
        ({"fleet": {"add": [{"like": "sim-1"}]}}, "count"),
        ({"fleet": {"add": [{"count": 1, "values": {"host": "x"}}]}}, "host"),
        ({"flavor_changes": {"extra_specs": {"resources:VCPU": "many"}}}, "resources:VCPU"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_invalid_questions_name_the_field(api_client: Any, body: Any, word: str) -> None:
    answer = asked(api_client("admin"), status=400, **body)
    assert word in json.dumps(answer)


def test_a_what_if_drain_shows_the_destination_of_each_guest(api_client: Any, hosts: Hosts, launch: Any) -> None:
    first, second = launch("web-1"), launch("web-2")
    home = instance_of(first).host or ""
    admin = api_client("admin")
    before = everything()
    found = admin.post("/api/what-if/drain", {"host": home}).json()["drain"]
    there = [uuid for uuid in (first, second) if instance_of(uuid).host == home]
    assert [guest["instance_uuid"] for guest in found["guests"]] == there
    assert all(guest["how"] == "live" and guest["host"] in set(NAMES) - {home} for guest in found["guests"])
    assert (found["moved"], found["staying"]) == (len(there), 0)
    memory = instance_of(first).flavor["memory_mb"] * len(there)
    assert found["room_before"]["free_memory_mb"] - found["room_after"]["free_memory_mb"] == memory
    others = [name for name in NAMES if name != home]
    alone = admin.post("/api/what-if/drain", {"host": home, "fleet": {"remove": others}}).json()["drain"]
    assert (alone["moved"], alone["staying"]) == (0, len(there))
    assert alone["guests"][0]["reason"]
    CellMapping.objects.filter(name=CELL).update(is_disabled=True, disabled_reason="new racks")
    shut = admin.post("/api/what-if/drain", {"host": home}).json()["drain"]
    assert (shut["moved"], shut["room_before"]["free_memory_mb"]) == (0, 0)
    assert "3 of 3 hosts: cell cell1 is closed to new servers." in shut["guests"][0]["reason"]
    CellMapping.objects.filter(name=CELL).update(is_disabled=False)
    assert admin.post("/api/what-if/drain", {"host": "moon"}).status_code == 404
    assert api_client("ana").post("/api/what-if/drain", {"host": home}).status_code == 403
    after = everything()
    assert {name for name in before if before[name] != after[name]} <= {"default.identity.Token"}
    assert not Service.objects.using(CELL).filter(is_disabled=True).exists()


def test_what_if_moves_and_resizes_are_answered(api_client: Any, hosts: Hosts, launch: Any, people: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host
    runs = WorkflowRun.objects.using(CELL).count()
    admin, mine = api_client("admin"), api_client("ana")
    moved = admin.post("/api/what-if/move", {"server": uuid}).json()["fit"]
    assert (moved["fits"], moved["hosts"][0] != home) == (True, True)
    grown = mine.post("/api/what-if/move", {"server": uuid, "flavor": "2"}).json()["fit"]
    assert (grown["fits"], grown["would_be_done"], grown["hosts"]) == (True, True, [])
    assert not any(name in json.dumps(grown) for name in NAMES)
    live = mine.post("/api/what-if/move", {"server": uuid, "is_live": True}).json()["fit"]
    assert (live["fits"], [one["rule"] for one in live["refusals"]]) == (True, ["policy"])
    Quota.objects.create(project_id=people.ana.project.id, resource="ram", limit=1)
    over = mine.post("/api/what-if/move", {"server": uuid, "flavor": "2"}).json()["fit"]
    assert (over["fits"], over["would_be_done"], over["refusals"][0]["rule"]) == (True, False, "quota")
    assert mine.post("/api/what-if/move", {"server": uuid, "flavor": "2", "is_live": True}).status_code == 400
    assert mine.post("/api/what-if/move", {"server": str(uuid4())}).status_code == 404
    assert api_client("chi").post("/api/what-if/move", {"server": uuid}).status_code == 404
    assert WorkflowRun.objects.using(CELL).count() == runs
    run_to_the_end(hosts)
    assert instance_of(uuid).host == home


def output(*words: str) -> str:
    out = StringIO()
    call_command("what_if", *words, stdout=out)
    return out.getvalue()


def test_the_command(hosts: Hosts, launch: Any) -> None:
    image = str(Image.objects.get(name="simulated-linux").uuid)
    requested = ("launch", "--flavor", "1", "--image", image)
    assert output(*requested, "--count", "2").startswith("2 of 2 find a host.\n3 of 3 hosts are eligible.")
    body = json.loads(output(*requested, "--add", "1:sim-1", "--remove", "sim-1", "--json"))
    assert (body["fits"], body["num_hosts"]) == (True, 3)
    with pytest.raises(SystemExit) as caught:
        output(*requested, "--memory-mb", "1000000")
    assert caught.value.code == 2
    home = instance_of(launch()).host or ""
    assert f"{home}: 1 would go, 0 would stay" in output("drain", home)
    for bad in (
        ("launch", "--flavor", "none", "--image", image),
        (*requested, "--count", "0"),
        (*requested, "--add", "many"),
        (*requested, "--vcpus", "-1"),
        (*requested, "--remove", "moon"),
        ("drain", "moon"),
    ):
        with pytest.raises(CommandError):
            output(*bad)
