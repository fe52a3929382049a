"""The checker finds a failure that no workflow explains, and ports and snapshots that a failed one left."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import checker
from tests.chaos.evidence import Evidence

SERVER, PORT = "a-server", "a-port"


@dataclass(frozen=True)
class InventedEvidence(Evidence):
    """Evidence with invented database contents."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)
    snapshots: dict[str, str] = field(default_factory=dict)  # the status of each
    images: dict[str, list[str]] = field(default_factory=dict)  # the snapshots that each one lists

    def rows(self, database: str, query: str) -> list[dict[str, Any]]:
        if "network_port" in query:
            return [{"uuid": uuid} for uuid in self.ports]
        if "volume_snapshot" in query:
            return [{"uuid": uuid, "status": status} for uuid, status in self.snapshots.items()]
        if "image_image" in query:
            listed = {uuid: [{"snapshot_id": name} for name in names] for uuid, names in self.images.items()}
            return [{"uuid": uuid, "listed": json.dumps(devices)} for uuid, devices in listed.items()]
        return self.runs if "inputs" in query else []


RIGHT: dict[str, Any] = {
    "verb": "attach_interface",
    "request_id": "req-1",
    "flow": "attach_interface",
    "state": "failed (undone)",
    "ports": ["another"],
    "addresses": ["another"],
}


def complaints(folder: Path, changes: dict[str, Any]) -> list[str]:
    """Return the checker's complaints about the answer 500, with `changes` to the correct state."""
    case = RIGHT | changes
    answer = {"verb": case["verb"], "server": SERVER, "status": 500, "request_id": "req-1", "answer": "it failed"}
    answers = folder / "answers.jsonl"
    answers.write_text(json.dumps(answer) + "\n")
    run = {key: case[key] for key in ("request_id", "flow", "state")} | {"inputs": {"port_id": PORT}}
    found = InventedEvidence({"api": ""}, folder, answers, runs=[run], ports=case["ports"])
    instances = {SERVER: {"addresses": [{"port_uuid": uuid} for uuid in case["addresses"]]}}
    return checker._answers(found, instances)


def test_an_answer_500_is_right_when_the_port_is_free(tmp_path: Path) -> None:
    assert complaints(tmp_path, {}) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"verb": "os-stop"},
        {"state": "done"},
        {"state": "running"},
        {"flow": "stop_instance"},
        {"request_id": "req-2"},
        {"ports": [PORT]},
        {"addresses": [PORT]},
    ],
    ids=str,
)
def test_any_other_failure_is_wrong(wrong: dict[str, Any], tmp_path: Path) -> None:
    (line,) = complaints(tmp_path, wrong)
    assert "was answered 500 (req-1)" in line


@pytest.mark.parametrize(
    ("state", "snapshots", "words"),
    [
        ("done", {"one": "available", "two": "available"}, ""),
        ("failed (undone)", {}, ""),
        ("failed (undone)", {"another": "available"}, ""),
        ("failed (undone)", {"two": "available"}, "left snapshots of no image: ['two']"),
        ("failed (not clean)", {"one": "deleting"}, "left snapshots of no image: ['one']"),
        ("done", {"one": "creating"}, "snapshot one is creating"),
    ],
)
def test_snapshots_are_those_of_images_that_were_made(
    state: str, snapshots: dict[str, str], words: str, tmp_path: Path
) -> None:
    listed = [{"snapshot_id": name, "volume_id": "a-volume"} for name in ("one", "two")]
    run = {"uuid": "a-run", "state": state, "inputs": {"image_id": "an-image", "snapshots": listed}}
    found = InventedEvidence({"api": ""}, tmp_path, tmp_path / "answers", runs=[run], snapshots=snapshots)
    lines = checker._snapshots(found)
    assert [words in line for line in lines] == ([True] if words else [])


def test_an_image_whose_snapshot_is_gone_is_wrong(tmp_path: Path) -> None:
    images = {"an-image": ["one", "two"], "another": ["one"]}
    found = InventedEvidence({"api": ""}, tmp_path, tmp_path / "answers", snapshots={"one": "available"}, images=images)
    assert checker._snapshots(found) == ["image an-image names snapshot two, which is gone"]
