"""One host's commands: driver calls, their order, and the answers."""

from __future__ import annotations

import base64
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conductor.compute import manager as manager_module
from conductor.compute.host_journal import HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.keyed_executor import KeyedExecutor
from conductor.compute.manager import AgentResources, ComputeManager
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import BuildAborted, DriverError, NotFound
from conductor.rpc.codec import encode
from conductor.rpc.messages import (
    CheckBuild,
    DestroyInstance,
    HostReported,
    SpawnInstance,
    StepAnswered,
    StepProgressed,
)
from tests.tiny_driver import TinyDriver, guest_json
from tests.waiting import WAIT_SECONDS, take_time, wait_until

ANA, BO = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"


MOST_AT_ONCE = 4


def spawn(key: str, token: int, instance: str = ANA, **guest: Any) -> dict[str, Any]:
    address = _address(key, token, instance)
    return encode(SpawnInstance(**address, guest=guest_json(instance, **guest)))


def destroy(key: str, token: int, instance: str = ANA) -> dict[str, Any]:
    return encode(DestroyInstance(**_address(key, token, instance)))


def _address(key: str, token: int, instance: str) -> dict[str, Any]:
    return {
        "step_key": key,
        "fencing_token": token,
        "run_uuid": f"run-{key}",
        "cell": "cell1",
        "host": "host-1",
        "instance_uuid": instance,
    }


class Host:
    """A manager with its surroundings."""

    def __init__(self, path: Path, executor: KeyedExecutor) -> None:
        self.driver = TinyDriver()
        self.journal = HostJournal(path)
        self.sent: list[Any] = []
        self.finished: list[str] = []
        self.condition = threading.Condition()
        self.manager = ComputeManager(
            HostConfig(host="host-1", cell="cell1", driver="tiny", journal_path=path, most_at_once=MOST_AT_ONCE),
            self.driver,
            journal=self.journal,
            resources=AgentResources(executor, KeyedExecutor("urgent", 2), self._send),
            on_finished=self.finished.append,
        )

    def _send(self, cell: str, message: Any) -> None:
        assert cell == "cell1"
        with self.condition:
            self.sent.append(message)
            self.condition.notify_all()

    def receive(self, *bodies: dict[str, Any]) -> None:
        for body in bodies:
            self.manager.receive(body)

    @property
    def answers(self) -> list[StepAnswered]:
        return [message for message in self.sent if isinstance(message, StepAnswered)]

    def answer(self, key: str, count: int = 1) -> StepAnswered:
        """Return the last of `count` answers to a command."""

        def found() -> list[StepAnswered]:
            return [answer for answer in self.answers if answer.step_key == key]

        with self.condition:
            assert self.condition.wait_for(lambda: len(found()) >= count, WAIT_SECONDS), (
                f"no answer to {key}: {self.sent}"
            )
        return found()[count - 1]


@pytest.fixture
def executor() -> Iterator[KeyedExecutor]:
    made = KeyedExecutor("test", 8)
    yield made
    assert made.stop(WAIT_SECONDS)


@pytest.fixture
def host(tmp_path: Path, executor: KeyedExecutor) -> Iterator[Host]:
    made = Host(tmp_path / "host-1.sqlite3", executor)
    yield made
    assert executor.stop(WAIT_SECONDS)
    assert made.driver.overlaps == []
    made.journal.close()


class Held:
    """A spawn that stops in the middle until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self, guest: GuestSpec, progress: Progress) -> None:
        self.begun.set()
        assert self.may_end.wait(WAIT_SECONDS)


def test_spawn_and_destroy_are_answered_in_full(host: Host) -> None:
    host.receive(spawn("k1", 5))
    assert host.answer("k1") == StepAnswered(
        step_key="k1", run_uuid="run-k1", fencing_token=5, host="host-1", ok=True, result={}, error=None
    )
    assert host.driver.running[ANA] == GuestSpec.from_json(guest_json(ANA))
    host.receive(destroy("k2", 6))
    assert host.answer("k2").ok
    assert host.driver.running == {}
    assert host.driver.calls == [("spawn", ANA), ("destroy", ANA)]
    wait_until("both commands are finished", lambda: host.finished == [ANA, ANA])


def check(key: str, token: int, instance: str) -> dict[str, Any]:
    return encode(CheckBuild(**_address(key, token, instance), guest=guest_json(instance)))


def test_a_build_is_refused_where_a_guest_of_this_name_is_there(host: Host) -> None:
    host.receive(spawn("k1", 5))
    assert host.answer("k1").ok
    host.receive(check("k2", 6, ANA), check("k3", 7, BO))
    error = host.answer("k2").error or {}
    assert (error["message"], error["is_reschedulable"]) == ("This host has a guest of this name already.", True)
    assert host.answer("k3").ok
    assert host.driver.calls == [("spawn", ANA)]


def test_a_check_waits_for_no_build(host: Host) -> None:
    host.driver.spawning = held = Held()
    builds = [f"00000000-0000-4000-8000-{number:012}" for number in range(MOST_AT_ONCE)]
    host.receive(*(spawn(f"k{number}", number + 1, uuid) for number, uuid in enumerate(builds)))
    assert held.begun.wait(WAIT_SECONDS)
    host.receive(check("check", 100, BO))
    assert host.answer("check").ok
    assert [answer.step_key for answer in host.answers] == ["check"]
    held.may_end.set()
    assert all(host.answer(f"k{number}").ok for number in range(MOST_AT_ONCE))


def test_a_repeated_command_gets_the_same_answer_and_the_driver_is_left_alone(host: Host) -> None:
    host.receive(spawn("k1", 5))
    first = host.answer("k1")
    host.receive(spawn("k1", 5), spawn("k1", 5))
    assert host.answer("k1", 3) == first == host.answer("k1", 2)
    assert host.driver.calls == [("spawn", ANA)]


def test_a_command_repeated_while_it_is_under_work_is_answered_once(host: Host) -> None:
    host.driver.spawning = held = Held()
    host.receive(spawn("k1", 5))
    assert held.begun.wait(WAIT_SECONDS)
    host.receive(spawn("k1", 5), spawn("k1", 5))
    held.may_end.set()
    host.answer("k1")
    assert len(host.answers) == 1
    assert host.driver.calls == [("spawn", ANA)]


def test_a_stale_command_never_reaches_the_driver(host: Host) -> None:
    host.receive(destroy("k2", 6))
    host.answer("k2")
    host.receive(spawn("k1", 5))
    refused = host.answer("k1")
    assert not refused.ok
    assert refused.error == {
        "class": "StaleToken",
        "message": f"Token 5 is no longer the newest for instance {ANA}.",
        "is_reschedulable": False,
    }
    assert host.driver.calls == [("destroy", ANA)]


def test_a_destroy_waits_for_the_spawn_under_way_whose_guest_goes_before_it_is_answered(host: Host) -> None:
    host.driver.spawning = held = Held()
    host.receive(spawn("k1", 5))
    assert held.begun.wait(WAIT_SECONDS)
    host.receive(destroy("k2", 6))
    held.may_end.set()
    assert host.answer("k1").error == {
        "class": "StaleToken",
        "message": f"Token 5 is no longer the newest for instance {ANA}.",
        "is_reschedulable": False,
    }
    assert host.answer("k2").ok
    assert host.driver.calls == [("spawn", ANA), ("destroy", ANA), ("destroy", ANA)]
    assert host.driver.running == {}
    assert [answer.step_key for answer in host.answers] == ["k1", "k2"]


def test_a_destroy_interrupts_a_spawn_that_reports_progress(host: Host) -> None:
    begun, may_go_on, reached_the_end = threading.Event(), threading.Event(), []

    def build(guest: GuestSpec, progress: Progress) -> None:
        progress("copying the image", 0.1)
        begun.set()
        assert may_go_on.wait(WAIT_SECONDS)
        progress("starting", 0.9)
        reached_the_end.append(guest)

    host.driver.spawning = build
    host.receive(spawn("k1", 5))
    assert begun.wait(WAIT_SECONDS)
    host.receive(destroy("k2", 6))
    may_go_on.set()
    assert host.answer("k2").ok
    assert host.answer("k1").error["class"] == "StaleToken"  # type: ignore[index]
    assert reached_the_end == []


def test_a_spawn_that_was_overtaken_in_the_queue_never_reaches_the_driver(host: Host) -> None:
    host.driver.destroying = lambda uuid: held(GuestSpec.from_json(guest_json(uuid)), lambda *_: None)
    held = Held()
    host.receive(destroy("k1", 5))
    assert held.begun.wait(WAIT_SECONDS)
    host.receive(spawn("k2", 6), destroy("k3", 7))
    held.may_end.set()
    assert host.answer("k3").ok
    assert host.answer("k2").error["class"] == "StaleToken"  # type: ignore[index]
    assert host.driver.calls == [("destroy", ANA), ("destroy", ANA)]


def test_other_instances_do_not_wait(host: Host) -> None:
    held = Held()
    host.driver.spawning = lambda guest, progress: held(guest, progress) if guest.instance_uuid == ANA else None
    host.receive(spawn("k1", 5), spawn("k2", 6, BO))
    assert host.answer("k2").ok
    assert [answer.step_key for answer in host.answers] == ["k2"]
    held.may_end.set()
    assert host.answer("k1").ok


def test_commands_from_many_threads_never_overlap_on_an_instance(host: Host) -> None:
    host.driver.spawning = lambda guest, progress: take_time(0.002)
    host.driver.destroying = lambda uuid: take_time(0.002)
    bodies = [
        (spawn if number % 2 else destroy)(f"k{number}", number, (ANA, BO)[number % 3 == 0]) for number in range(60)
    ]
    threads = [threading.Thread(target=host.receive, args=bodies[start::4] * 2) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=WAIT_SECONDS)
    for number in range(60):
        host.answer(f"k{number}")
    # 59 is a spawn for ANA, and the highest token of BO is the destroy 54 or the spawn 57.
    assert set(host.driver.running) == {ANA, BO}
    assert host.driver.overlaps == []


def say(error: Exception) -> Callable[[GuestSpec, Progress], None]:
    def fail(guest: GuestSpec, progress: Progress) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (DriverError("no memory left"), ("DriverError", "no memory left", True)),
        (BuildAborted("the image is broken"), ("BuildAborted", "the image is broken", False)),
        (NotFound("no such image"), ("NotFound", "no such image", False)),
        (
            RuntimeError("the password is hunter22"),
            ("RuntimeError", "The driver failed unexpectedly (RuntimeError).", True),
        ),
        (DriverError("x" * 5000), ("DriverError", "x" * 1000, True)),
    ],
)
def test_failures_are_classified_so_that_the_conductor_can_decide(
    host: Host, error: Exception, expected: tuple[str, str, bool]
) -> None:
    host.driver.spawning = say(error)
    host.receive(spawn("k1", 5))
    answer = host.answer("k1")
    assert not answer.ok
    assert answer.result == {}
    unexpected = {"code": "driver.failed", "values": {"kind": "RuntimeError"}} if expected[0] == "RuntimeError" else {}
    assert answer.error == dict(zip(("class", "message", "is_reschedulable"), expected, strict=True)) | unexpected
    host.receive(spawn("k1", 5))
    assert host.answer("k1", 2) == answer
    assert len(host.driver.calls) == 1


@pytest.mark.parametrize("kind", [DriverError, ValueError])
def test_user_data_is_in_no_answer_progress_or_log(
    host: Host, caplog: pytest.LogCaptureFixture, kind: type[Exception]
) -> None:
    secret = "correct horse battery"
    coded = base64.b64encode(secret.encode()).decode()

    def build(guest: GuestSpec, progress: Progress) -> None:
        progress(f"writing {secret}", None)
        raise kind(f"cannot write {guest.user_data}: {secret}")

    host.driver.spawning = build
    with caplog.at_level(logging.DEBUG):
        host.receive(spawn("k1", 5, user_data=coded))
        host.answer("k1")
    output = repr(host.sent) + caplog.text
    assert secret not in output
    assert coded not in output
    assert "writing [hidden]" in output
    assert kind.__name__ in output


def test_progress_is_reported_at_most_once_per_interval(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(guest: GuestSpec, progress: Progress) -> None:
        for number in range(50):
            progress(f"part {number}", number / 25)

    monkeypatch.setattr(manager_module, "PROGRESS_INTERVAL_SECONDS", 3600.0)
    host.driver.spawning = build
    host.receive(spawn("k1", 5))
    host.answer("k1")
    output = [message for message in host.sent if isinstance(message, StepProgressed)]
    assert output == [
        StepProgressed(step_key="k1", run_uuid="run-k1", fencing_token=5, host="host-1", message="part 0", share=0.0)
    ]
    monkeypatch.setattr(manager_module, "PROGRESS_INTERVAL_SECONDS", 0.0)
    host.receive(spawn("k2", 6))
    host.answer("k2")
    shares = [message.share for message in host.sent if isinstance(message, StepProgressed)][1:]
    assert len(shares) == 50
    assert shares[-1] == 1.0  # a share of more than all is all


def test_an_answer_that_could_not_be_sent_is_sent_when_the_command_is_repeated(host: Host) -> None:
    failed = threading.Event()

    def broken(cell: str, message: Any) -> None:
        failed.set()
        raise ConnectionError("no broker")

    whole = host.manager._resources
    host.manager._resources = replace(whole, send=broken)
    host.receive(spawn("k1", 5))
    assert failed.wait(WAIT_SECONDS)
    wait_until("the command is finished", lambda: host.finished == [ANA])
    host.manager._resources = whole
    host.receive(spawn("k1", 5))
    assert host.answer("k1").ok
    assert host.driver.calls == [("spawn", ANA)]


def test_results_that_the_journal_cannot_store_are_not_sent_and_the_command_runs_again(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(host.journal, "_remember", full)
        host.receive(spawn("k1", 5, user_data="correct horse"))
        assert host.driver.calls == []
        patch.undo()
        patch.setattr(host.journal, "finish", full)
        host.receive(spawn("k1", 5))
        wait_until("the failure is logged", lambda: "work failed" in caplog.text)
    assert host.sent == []
    host.receive(spawn("k1", 5))
    assert host.answer("k1").ok
    assert host.driver.calls == [("spawn", ANA), ("spawn", ANA)]
    assert "correct horse" not in caplog.text


def test_messages_that_are_no_commands_or_newer_are_left(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    newer = {**spawn("k1", 5), "version": "2.0"}
    unknown = {**spawn("k1", 5), "message": "freeze_instance"}
    answer = {"step_key": "k", "run_uuid": "r", "fencing_token": 1, "host": "host-1", "ok": True, "result": {}}
    host.receive(newer, unknown, encode(StepAnswered(**answer)), {"message": "spawn_instance"})
    assert host.sent == []
    assert host.driver.calls == []
    assert len(caplog.records) == 4
    host.receive(spawn("k1", 5))  # and nothing of it was kept
    assert host.answer("k1").ok
    assert not [message for message in host.sent if isinstance(message, HostReported)]
