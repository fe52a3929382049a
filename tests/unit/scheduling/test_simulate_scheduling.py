"""The command that decides about cases in a file: what it writes, and that it writes nothing for a bad one."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

CASE: dict[str, Any] = {
    "name": "two hosts",
    "hosts": [
        {"name": "h1", "vcpus": 4, "ram_mb": 4096, "disk_gb": 40},
        {"name": "h2", "vcpus": 8, "ram_mb": 8192, "disk_gb": 80, "status": "down"},
    ],
    "requests": [{"name": "r1", "flavor": {"vcpus": 1, "ram_mb": 512, "disk_gb": 1}}],
}


def run(folder: Path, *cases: Any, file: Any = None) -> list[dict[str, Any]]:
    source, target = folder / "cases.json", folder / "decisions.json"
    content = {"format": "nova-scheduler-cases/1", "cases": list(cases)} if file is None else file
    source.write_text(content if isinstance(content, str) else json.dumps(content))
    call_command("simulate_scheduling", str(source), output=str(target))
    return [json.loads(line) for line in target.read_text().splitlines()]


def changed(*path: Any, to: Any) -> dict[str, Any]:
    case = deepcopy(CASE)
    place: Any = case
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return case


def test_each_request_has_a_line_in_the_order_of_the_file(tmp_path: Path) -> None:
    second = {**deepcopy(CASE), "name": "again"}
    second["requests"].append({**CASE["requests"][0], "name": "r2", "num_instances": 2})
    lines = run(tmp_path, CASE, second)
    assert [(line["case"], line["request"]) for line in lines] == [
        ("two hosts", "r1"),
        ("again", "r1"),
        ("again", "r2"),
    ]
    first, *_, last = lines
    assert first["filters"]["ComputeFilter"]["rejects"] == ["h2"]
    assert first["filters"]["ComputeFilter"]["reasons"]["h2"]
    assert first["placement"][0]["hosts"] == ["h1", "h2"]
    assert first["rounds"][0]["steps"][0]["filter"] == "ComputeFilter"
    assert first["rounds"][0]["order"] == [["h1", 0.0]]
    assert first["selections"] == [{"host": "h1", "alternates": []}]
    assert len(last["rounds"]) == 3  # one for each instance, one for alternates
    assert "ComputeFilter" not in [step["filter"] for step in last["rounds"][1]["steps"]]


def test_the_same_file_has_the_same_answers(tmp_path: Path) -> None:
    assert run(tmp_path, CASE) == run(tmp_path, CASE)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (changed("hosts", 1, "vcpus", to="many"), ['Case "two hosts"', "hosts[1].vcpus", "many"]),
        (changed("hosts", 0, "status", to="asleep"), ["hosts[0].status", "asleep", "forced_down"]),
        (changed("hosts", 0, "aggregates", to=["nobody"]), ["hosts[0].aggregates", "nobody"]),
        (changed("hosts", 1, "name", to="h1"), ["hosts", "h1", "give each its own"]),
        (changed("requests", 0, "group", to="nobody"), ["requests[0].group", "nobody"]),
        (changed("requests", 0, "flavor", to={}), ["requests[0].flavor", "vcpus"]),
        (changed("filters", to=["NoSuchFilter"]), ["filters[0]", "NoSuchFilter", "ComputeFilter"]),
        (changed("weighers", to=["NoSuchWeigher"]), ["weighers[0]", "NoSuchWeigher", "RAMWeigher"]),
        (changed("config", to={"scheduler.max_attempts": 0}), ["config.scheduler.max_attempts", "0"]),
        (changed("config", to={"filter_scheduler.ram_weight_multiplier": "x"}), ["ram_weight_multiplier", "number"]),
        (
            changed("config", to={"filter_scheduler.ram_weight_multiplier": float("nan")}),
            ["ram_weight_multiplier", "nan"],
        ),
        (
            changed("config", to={"filter_scheduler.max_io_ops_per_host": "many"}),
            ['Case "two hosts": config.filter_scheduler.max_io_ops_per_host', "many", "whole number"],
        ),
        (changed("config", to={"metrics.weight_setting": "a"}), ["config.metrics.weight_setting", "list"]),
        ({"hosts": [], "requests": []}, ["Case number 1", "name"]),
        ([], ["Case number 1"]),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(tmp_path: Path, case: Any, words: list[str]) -> None:
    target = tmp_path / "decisions.json"
    target.write_text("as it was")
    with pytest.raises(CommandError) as refused:
        run(tmp_path, CASE | {"name": "fine"}, case) if case != [] and "name" in case else run(tmp_path, case)
    assert all(word in str(refused.value) for word in words), str(refused.value)
    assert refused.value.returncode == 1
    assert target.read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cases.json", "decisions.json"]


def test_keys_that_the_format_does_not_have_are_passed_over_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = changed("hosts", 0, "instances", to=["a", {"uuid": "b", "image_properties": {"os_distro": "debian"}}])
    known |= {"config": {"any.option": 1}, "aggregates": [{"name": "left", "metadata": {"any": "x"}}]}
    expected = run(tmp_path, known)
    assert capsys.readouterr().err == ""
    strange = deepcopy(known)
    strange["hosts"][0] |= {"colour": "blue", "resources": {"PCPU": {"total": 1, "speed": 2}}}
    strange["hosts"][0]["instances"][1]["size"] = 3
    strange["requests"][0]["flavor"]["vcpu"] = 1
    assert [line["selections"] for line in run(tmp_path, strange)] == [line["selections"] for line in expected]
    message = capsys.readouterr().err
    for place in ("colour", "resources.PCPU.speed", "instances[1].size"):
        assert f'Case "two hosts": hosts[0].{place}: ' in message
    assert "requests[0].flavor.vcpu: " in message
    assert len(message.splitlines()) == 4


@pytest.mark.parametrize("file", ["{", "[]", {"format": "other/1", "cases": []}, {"format": "nova-scheduler-cases/1"}])
def test_a_file_that_is_no_file_of_cases_is_refused(tmp_path: Path, file: Any) -> None:
    with pytest.raises(CommandError):
        run(tmp_path, file=file)
    assert not (tmp_path / "decisions.json").exists()


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("simulate_scheduling", str(tmp_path / "nowhere.json"), output=str(tmp_path / "out.json"))
    run(tmp_path, CASE)
    with pytest.raises(CommandError, match="cannot be written"):
        call_command("simulate_scheduling", str(tmp_path / "cases.json"), output=str(tmp_path / "no" / "out.json"))
