"""Nova's own filters and weighers, and some by third parties, beside an installed Nova: run as they are."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conductor.core.messages import unpack
from tests.services import nova_environment

ROOT = Path(__file__).parents[3]
SEED = 34
PLACE = "tests.integration.nova_adapter.third_party"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of one process, and its other output."""
    options = tmp_path_factory.mktemp("nova") / "nova.conf"
    options.write_text("[racks]\nmost_guests = 3\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "NOVELLA"))}
    done = subprocess.run(
        [nova_environment.python(), "-W", "ignore", "-m", "tests.integration.nova_adapter", str(SEED), str(options)],
        cwd=ROOT,
        env={**environment, "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "stderr": done.stderr}


@pytest.fixture
def corpus(found: dict[str, Any]) -> dict[str, Any]:
    return dict(found["corpus"])


@pytest.fixture
def decisions(found: dict[str, Any]) -> dict[str, Any]:
    return dict(found["decisions"])


def funnel(decision: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Return how many hosts reached each class of Nova, and how many were left."""
    return {one["filter"]: (one["before"], one["after"]) for one in decision["funnel"] if "nova." in one["filter"]}


def test_ours_and_novas_agree_about_every_host_of_random_fleets(corpus: dict[str, Any]) -> None:
    assert corpus["different"] == []
    assert len(corpus["asked"]) == 22 + 13
    assert min(corpus["asked"].values()) >= 150
    turned_away = [name for name, requested in corpus["asked"].items() if corpus["passed"].get(name, 0) < requested]
    assert len(turned_away) >= 20  # it was about something


def test_requests_that_nova_cannot_express_are_refused_by_nova(corpus: dict[str, Any]) -> None:
    assert all(kind.startswith("nova.exception.") for kind in corpus["refused"])
    assert sum(corpus["refused"].values()) <= 3


def test_a_filter_of_nova_decides_in_order_and_its_log_line_is_the_reason(decisions: dict[str, Any]) -> None:
    both = decisions["both"]
    assert both["chosen"] == ["host-1"]
    assert funnel(both) == {"nova.RackFilter": (6, 3), "nova.OccupancyFilter": (3, 1)}
    assert "3 of 6 hosts: the filter RackFilter turns the host away." in map(unpack, both["advice"])
    rejections = {host["host"]: (host["rejected_by"], host["need"], host["have"]) for host in both["hosts"]}
    assert rejections["host-0"] == ("nova.RackFilter", f"{PLACE}.RackFilter", "host-0 is in ['r0']")
    assert rejections["host-5"] == ("nova.OccupancyFilter", f"{PLACE}.OccupancyFilter", "")  # by its option


def test_attributes_of_the_class_decide_when_a_filter_is_called(decisions: dict[str, Any]) -> None:
    assert decisions["names"] == [["nova.RackFilter", True, False], ["nova.OccupancyFilter", False, True]]
    assert funnel(decisions["rebuild"]) == {"nova.OccupancyFilter": (6, 3)}


def test_a_weigher_weighs_the_candidates_against_each_other(decisions: dict[str, Any]) -> None:
    assert decisions["weigher"] == [["nova.FewestWeigher", 2.5, "fewest_weight_multiplier", True, True]]
    weighing = decisions["weighing"]
    assert weighing["chosen"] == ["host-1"]
    raw = {one["host"]: one["parts"][0]["raw"] for one in weighing["weights"]}
    assert raw == {"host-1": 0.2, "host-3": 0.6, "host-5": 1.0}  # of the fullest candidate, not of all hosts
    assert {one["parts"][0]["multiplier"] for one in weighing["weights"]} == {-2.5}
    assert decisions["by the operator"]["chosen"] == ["host-5"]


def test_a_class_that_raises_is_a_failed_plugin_and_its_message_is_hidden(decisions: dict[str, Any]) -> None:
    failing = decisions["failing"]
    assert (failing["chosen"], funnel(failing)) == ([], {"nova.FailingFilter": (6, 0)})
    assert [(fault["error"], fault["consequence"]) for fault in failing["faults"]] == [("RuntimeError", "rejected")]
    assert "hunter2" not in json.dumps(decisions)
    assert decisions["fails open"]["chosen"] == ["host-0"]
    assert decisions["dry run"]["chosen"] == ["host-0"]
    shadow = decisions["dry run"]["uses"][0]
    assert (shadow["plugin"], shadow["mode"], shadow["faults"]) == ("nova.FailingFilter", "shadow", 6)


def test_a_class_that_cannot_be_loaded_rejects_hosts_and_is_named(decisions: dict[str, Any]) -> None:
    assert decisions["broken"]["shut out"] == 0
    assert decisions["broken"]["warnings"] == [
        "nova.NotOne fails whenever it is asked: it is no subclass of BaseHostFilter",
        "nova.Nowhere fails whenever it is asked: it cannot be made (AttributeError)",
        "nova.FewestWeigher fails whenever it is asked: its multiplier is no number: much",
    ]
    assert decisions["broken decides"]["chosen"] == []


def test_threads_stay_as_they_are_and_nothing_is_logged_that_was_not_before(found: dict[str, Any]) -> None:
    assert found["decisions"]["threads"] == ["threading", False]
    assert "is in ['r0']" not in found["stderr"]
