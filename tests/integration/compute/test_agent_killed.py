"""A real agent process, ended with SIGKILL in the middle of its work."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from conductor.core.states import PowerState
from conductor.rpc.codec import encode
from conductor.rpc.messages import (
    AttachVolume,
    DestroyInstance,
    MigrateOut,
    PowerOff,
    RebuildInstance,
    SpawnInstance,
    StepAnswered,
    SuspendInstance,
)
from tests.fixtures.agents import PROJECT, Agent
from tests.sqlite_copies import copy_of
from tests.tiny_driver import guest_json
from tests.waiting import WAIT_SECONDS, assert_stays, wait_until

ANA = "00000000-0000-4000-8000-00000000000a"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Any]:
    agents: list[Agent] = []

    def start(*driver: str) -> Agent:
        agents.append(Agent(tmp_path, *driver))
        return agents[-1]

    yield start
    (tmp_path / "hold").unlink(missing_ok=True)
    for agent in agents:
        if agent.process.poll() is None:
            agent.end()


def address(key: str, token: int) -> dict[str, Any]:
    return {
        "step_key": key,
        "fencing_token": token,
        "run_uuid": "r",
        "cell": "cell1",
        "host": "host-1",
        "instance_uuid": ANA,
    }


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    return path.read_text().splitlines() if path.exists() else []


def until_spawning(folder: Path) -> None:
    wait_until("the guest is half-built", (folder / f"{ANA}.guest").exists)


def remembered(folder: Path) -> set[str]:
    """Return the keys of the commands in the host's journal: from a copy, as the agent locks the file."""
    copy = copy_of(folder / "host-1.sqlite3", folder / "copy")
    with closing(sqlite3.connect(copy)) as journal:
        return {key for (key,) in journal.execute("SELECT step_key FROM commands")}


SPAWN = encode(SpawnInstance(**address("k1", 5), guest=guest_json(ANA)))
DESTROY = encode(DestroyInstance(**address("k2", 6)))


def test_an_interrupted_spawn_runs_once_more_when_it_is_repeated(started: Any, tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    agent = started()
    before = agent.first_report
    agent.send(SPAWN)
    until_spawning(tmp_path)
    agent.kill_9()
    (tmp_path / "hold").unlink()

    agent = started()
    assert agent.first_report.report_number > before.report_number
    assert agent.first_report.guests == {ANA: 1}  # half-built, and found again
    assert calls(tmp_path) == [f"spawn {ANA}"]  # by itself it does nothing: newer decisions are possible
    agent.send(SPAWN)
    answer = agent.hear(StepAnswered)
    assert (answer.step_key, answer.fencing_token, answer.ok, answer.error) == ("k1", 5, True, None)
    agent.kill_9()

    agent = started()
    for _ in range(3):
        agent.send(SPAWN)
        assert agent.hear(StepAnswered) == answer
    assert calls(tmp_path) == [f"spawn {ANA}"] * 2


def test_an_interrupted_spawn_with_a_stale_token_is_refused_and_its_guest_destroyed(
    started: Any, tmp_path: Path
) -> None:
    (tmp_path / "hold").touch()
    agent = started()
    agent.send(SPAWN)
    until_spawning(tmp_path)
    agent.send(DESTROY)  # waits for the spawn, but is remembered
    agent.send(DESTROY)
    wait_until("both are remembered", lambda: remembered(tmp_path) == {"k1", "k2"})
    agent.kill_9()
    (tmp_path / "hold").unlink()

    agent = started()
    agent.send(SPAWN)
    refused = agent.hear(StepAnswered)
    assert (refused.step_key, refused.ok, refused.error["class"]) == ("k1", False, "StaleToken")
    assert calls(tmp_path) == [f"spawn {ANA}"]
    agent.send(DESTROY)
    assert agent.hear(StepAnswered).ok
    assert calls(tmp_path) == [f"spawn {ANA}", f"destroy {ANA}"]
    assert not (tmp_path / f"{ANA}.guest").exists()


def test_a_second_agent_on_the_same_host_does_nothing(started: Any, tmp_path: Path) -> None:
    agent = started()
    second = subprocess.run(
        [sys.executable, "-c", _SECOND, str(tmp_path / "host-1.sqlite3")],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert "another agent that is alive holds it" in second.stderr
    agent.send(SPAWN)
    assert agent.hear(StepAnswered).ok


_SECOND = """
import sys, pathlib
from conductor.compute.host_journal import HostJournal
HostJournal(pathlib.Path(sys.argv[1]))
"""


WHOLE = guest_json(ANA)
VOLUME = {"volume_uuid": "v", "path": "/volumes/v", "size_gb": 1}
# The command, the driver's method, and the guest's note after the command.
VERBS: dict[str, tuple[type[Any], dict[str, Any], Callable[[dict[str, Any]], bool]]] = {
    "power_off": (PowerOff, {}, lambda notes: notes["guests"][ANA]["power_state"] == PowerState.SHUTDOWN),
    "suspend": (SuspendInstance, {}, lambda notes: notes["guests"][ANA]["power_state"] == PowerState.SUSPENDED),
    "rebuild": (RebuildInstance, {"guest": WHOLE}, lambda notes: notes["guests"][ANA]["boots"] >= 2),
    "attach_volume": (AttachVolume, {"volume": VOLUME}, lambda notes: list(notes["guests"][ANA]["volumes"]) == ["v"]),
    "migrate_out": (
        MigrateOut,
        {"guest": WHOLE, "destination": "host-2"},
        lambda notes: (list(notes["guests"]), list(notes["kept"])) == ([], [ANA]),
    ),
}


@pytest.mark.parametrize("is_after", [False, True], ids=["before its effect", "after its effect"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_command_interrupted_by_a_kill_is_done_when_it_is_repeated(
    started: Any, tmp_path: Path, verb: str, is_after: bool
) -> None:
    kind, fields, is_done = VERBS[verb]
    command = encode(kind(**address("k2", 6), **fields))

    def notes() -> dict[str, Any]:
        return dict(json.loads((tmp_path / "guests.json").read_text()))

    agent = started("fake")
    agent.send(encode(SpawnInstance(**address("k1", 5), guest=WHOLE)))
    assert agent.hear(StepAnswered).ok
    (tmp_path / "faults.json").write_text(json.dumps({verb: {"hangs": True, "after_effect": is_after}}))
    agent.send(command)
    if is_after:
        wait_until("its effect", lambda: is_done(notes()))
    else:
        assert_stays("it has no effect", lambda: not is_done(notes()), seconds=1.0)
    agent.kill_9()
    (tmp_path / "faults.json").unlink()
    again = started("fake")
    again.send(command)
    answer = again.hear(StepAnswered)
    assert (answer.step_key, answer.ok) == ("k2", True)
    assert is_done(notes())
    again.send(command)
    assert again.hear(StepAnswered) == answer
