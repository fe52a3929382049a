"""Completeness of the campaign: each flow of the catalogue has a scene, and each of its places is reached."""

from __future__ import annotations

import pytest

from conductor.workflows.catalog import FLOWS, failpoints
from conductor.workflows.flow import Flow
from tests.chaos.planted_in_clouds import FINDINGS, Finding
from tests.chaos.points import places
from tests.chaos.scenes import AS_ADMIN, AT_ONCE, OPERATIONS, REMEDIES, SCENES

# Flows with an undo that no scene brings about, and why.
NOT_TURNED_BACK = {
    "build_instances": "its steps are retried, and fail for good only with a cell's database",
    "try_again": "as build_instances",
    "revert_resize": "once its source has the command it only goes forward, unless that is known to be off",
}


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_every_place_of_every_flow_is_reached_by_a_scene(flow: Flow) -> None:
    walked = {place.name for place in places("", 0, 0)}
    assert set(failpoints(flow)) <= walked, "give it a scene in tests/chaos/scenes.py"
    back = set(failpoints(flow, "undo"))
    assert (back <= walked) == (flow.name not in NOT_TURNED_BACK), "a scene needs what fails: `verb` or `lost`"


def test_scenes_consist_of_operations() -> None:
    named = {
        operation for scene in SCENES.values() for operation in (*scene.before, *scene.first, *scene.last, *scene.tidy)
    }
    named |= {scene.action for scene in SCENES.values() if scene.action}
    named |= {*AS_ADMIN, *AT_ONCE, *REMEDIES, *REMEDIES.values()}
    assert named <= OPERATIONS.keys()


def test_scenes_belong_to_existing_flows() -> None:
    assert {title.partition(",")[0] for title in SCENES} == {flow.name for flow in FLOWS}


@pytest.mark.parametrize("finding", FINDINGS.values(), ids=lambda finding: finding.words)
def test_each_bug_that_is_planted_in_clouds_has_a_place_that_shows_it(finding: Finding) -> None:
    assert len(places(finding.match, 0, 0)) == 1


def test_schedulers_die_where_they_are_called() -> None:
    selecting = {place.scene.partition(",")[0] for place in places(r"^scheduler\.", 0, 0)}
    assert {"build_instances", "resize_instance", "unshelve_instance", "evacuate_instance"} <= selecting
    assert "rebuild_instance" not in selecting
