"""Answers to what-if questions over HTTP: as on the page, from the same service."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conductor.image.models import Image
from tests import factories
from tests.fixtures.what_if import everything
from tests.fixtures.what_if_callers import caller

__all__ = ["caller"]
pytestmark = pytest.mark.usefixtures("caller")
NOTHING = "00000000-0000-4000-8000-000000000000"


def ask(client: Any, path: str, status: int = 200, **body: Any) -> Any:
    answer = client.post(f"/api/what-if/{path}", body)
    assert answer.status_code == status, answer.content
    return answer.json()


def launch(**more: Any) -> dict[str, Any]:
    return {"flavor": "1", "image": str(Image.objects.get(name="small-linux").uuid), **more}


def test_a_launch_is_compared_with_a_fleet_and_plugins_that_are_supposed(api_client: Any) -> None:
    admin, before = api_client("admin"), everything()
    as_is = ask(admin, "compare", **launch(count=3))["comparison"]
    assert (as_is["now"]["fits"], as_is["now"]["placed"], as_is["then"]) == (True, 3, None)
    gone = ask(admin, "compare", **launch(fleet={"remove": ["rack*"]}))["comparison"]
    assert (gone["then"]["num_hosts"], gone["taken_away"]) == (1, ["rack1-01", "rack1-02", "rack2-01"])
    assert {host["fate"] for host in gone["hosts"] if host["host"].startswith("rack")} == {"gone"}
    light = {"weigher": {"RAMWeigher": {"multiplier": -5.0}}, "filter": {"ComputeFilter": {"enabled": False}}}
    found = ask(admin, "compare", **launch(plugins=light, subset=1))["comparison"]
    assert set(found["now"]["hosts"]) == {"big-01"}
    assert "big-01" not in found["then"]["hosts"]
    requested = {stage["filter"]: (stage["now"], stage["then"], stage["by"]) for stage in found["stages"]}
    assert requested["ComputeFilter"] == (0, None, 0)
    after = everything()
    assert {name for name in before if before[name] != after[name]} <= {"default.identity.Token"}


def test_stored_requests_are_evaluated_again_one_or_many(api_client: Any, people: Any) -> None:
    stored = factories.failed_decision(factories.run(people.ana.context()))
    admin = api_client("admin")
    closed: dict[str, Any] = {"fleet": {"disable": ["*"]}}
    one = ask(admin, "compare", decision=str(stored.uuid), count=2, **closed)["comparison"]
    assert (one["now"]["placed"], one["then"]["placed"]) == (2, 0)
    many = ask(admin, "replay", count=10, **closed)["replay"]
    assert (many["wanted"], many["asked"], many["fit_now"], many["fit_then"], many["num_lost"]) == (10, 1, 1, 0, 1)
    assert [lost["decision_uuid"] for lost in many["lost"]] == [str(stored.uuid)]
    assert many["lost"][0]["asked_at"].endswith("+00:00")
    assert ask(admin, "replay", count=100)["replay"]["is_hypothetical"] is False
    assert ask(admin, "compare", 404, decision=NOTHING)
    for path in ("compare", "replay"):
        assert ask(api_client("ana"), path, 403, decision=str(stored.uuid), count=10)


@pytest.mark.parametrize(
    ("path", "body", "word"),
    [
        ("compare", {}, "Name a decision, or a flavor and an image."),
        ("compare", {"flavor": "1"}, "Name a decision, or a flavor and an image."),
        ("compare", {"decision": NOTHING, "flavor": "1"}, "flavor"),
        ("compare", {"decision": "one"}, "decision"),
        ("replay", {}, "count"),
        ("replay", {"count": 11}, "count"),
        ("replay", {"count": 10, "fleet": {"remove": ["moon-*"]}}, "fleet.remove"),
        ("replay", {"count": 10, "fleet": {"disable": ["moon"]}}, "fleet.disable"),
        ("replay", {"count": 10, "fleet": {"add": [{"count": 1, "like": "moon"}]}}, "fleet.add.like"),
        ("replay", {"count": 10, "plugins": {"filter": {"Moon": {"enabled": False}}}}, "plugins.Moon"),
        ("replay", {"count": 10, "plugins": {"driver": {"fake": {"enabled": False}}}}, "driver"),
        ("replay", {"count": 10, "subset": 0}, "subset"),
    ],
)
def test_invalid_questions_name_the_field(api_client: Any, path: str, body: dict[str, Any], word: str) -> None:
    assert word in json.dumps(ask(api_client("admin"), path, 400, **body))
