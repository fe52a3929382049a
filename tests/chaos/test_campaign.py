"""A part of the fault campaign, by fixed seeds: all of it is `make chaos`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tests.chaos import points, scenes
from tests.chaos.campaign import Campaign, at_random
from tests.chaos.people import Person
from tests.chaos.stage import Scene, Stage

SEED = 20
ACTIONS, KILLS, SERVER_KILLS, PLACES = 100, 8, 10, 8


@pytest.mark.timeout(900)
def test_a_cloud_under_faults_comes_to_rest_without_violations(tmp_path: Path) -> None:
    lines: list[str] = []
    armed = {"NOVELLA_CRASH_AT": f"@{tmp_path / points.ARMED}"}
    with Campaign(tmp_path, SEED, **armed) as campaign:
        numbers = {"actions": ACTIONS, "kills": KILLS, "server_kills": SERVER_KILLS}
        wrong = at_random(campaign, report=lines.append, **numbers)
        assert wrong == [], f"python -m tests.chaos --seed {SEED} with {numbers}"
        assert f" {KILLS} blows, {SERVER_KILLS} kills of servers" in lines[0]
        assert points.remove_servers(campaign) == []
        found = points.places(scenes.WITHOUT_RECLAIM, PLACES, SEED, with_schedulers=False)
        assert points.walk(campaign, found, lines.append) == [], lines
        assert "not reached: none" in lines[-1]


def test_a_place_that_no_process_reaches_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = Campaign(tmp_path, SEED)
    campaign.people = [cast(Person, None)]
    campaign.cloud.data_dir.mkdir()
    lines: list[str] = []

    def play(stage: Stage, scene: Scene, place: points.CrashPoint) -> list[str]:
        (tmp_path / points.ARMED).write_text(place.name)
        return []

    monkeypatch.setattr(points, "_play", play)
    monkeypatch.setattr(points, "_failed_runs", lambda stage: [])
    monkeypatch.setattr(points, "_end", lambda stage, is_checked: [])
    assert points.walk(campaign, [points.CrashPoint("stop_instance", "a")], lines.append) == [
        "a: no process died: the scene does not reach this place"
    ]
    assert lines[0].endswith("(not reached) WRONG")


@pytest.mark.parametrize(
    ("accepted", "wrong"),
    [
        ([], []),
        (["req-1"], []),
        (["req-1", "req-2"], ["req-2 was accepted, and the server has no action of it"]),
    ],
)
def test_an_accepted_request_that_its_server_has_no_action_of_is_wrong(
    tmp_path: Path, accepted: list[str], wrong: list[str]
) -> None:
    class Asked:
        def ask(self, method: str, path: str, *, as_admin: bool) -> tuple[int, Any, str]:
            assert (method, path) == ("GET", "/compute/v2.1/servers/a-server/os-instance-actions")
            return 200, {"instanceActions": [{"request_id": "req-1"}]}, "req-3"

    stage = Stage(Campaign(tmp_path, SEED), cast(Person, Asked()), "a-server", accepted=accepted)
    assert points._not_found_again(stage) == wrong


def test_a_scene_that_cannot_be_played_is_wrong_and_the_walk_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is not in the state that the action needs: reported with the reason of its workflows' failure."""
    campaign = Campaign(tmp_path, SEED)
    campaign.people = [cast(Person, None)]
    campaign.cloud.data_dir.mkdir()
    played: list[str] = []
    lines: list[str] = []

    def play(stage: Stage, scene: Scene, place: points.CrashPoint) -> list[str]:
        played.append(place.name)
        assert scene.action != "unshelve", "unshelve is refused with 409: while it is in vm_state active"
        (tmp_path / points.ARMED).unlink(missing_ok=True)
        return []

    monkeypatch.setattr(points, "_play", play)
    monkeypatch.setattr(points, "_failed_runs", lambda stage: ["cell1: shelve_instance is failed (undone): no room"])
    monkeypatch.setattr(points, "_end", lambda stage, is_checked: [])
    found = [points.CrashPoint("unshelve_instance", "a"), points.CrashPoint("stop_instance", "b")]
    wrong = points.walk(campaign, found, lines.append)
    assert played == ["a", "b"]
    assert wrong[0].startswith("a: unshelve is refused with 409")
    assert wrong[1:] == ["a: cell1: shelve_instance is failed (undone): no room"]
    assert lines[0].endswith("(not reached) WRONG")
    assert lines[-1] == "1 deaths; not reached: a"
