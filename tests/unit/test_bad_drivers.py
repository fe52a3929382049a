"""Drivers that return wrong data or exit: each is one clear fault, and their agent keeps working."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conductor.compute import driver_validation
from conductor.compute.console_follower import ConsoleFollower
from conductor.compute.heartbeat import Heartbeat
from conductor.compute.host_agent import HostAgent
from conductor.compute.host_journal import CommandAttempts, HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.keyed_executor import KeyedExecutor
from conductor.compute.manager import AgentResources
from conductor.core.compute_driver import HAS_LEFT, GuestInfo, Inventory, NodeReport
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import DriverError
from conductor.core.guest_questions import GuestQuestion
from conductor.core.states import PowerState
from conductor.rpc.codec import encode
from conductor.rpc.messages import (
    DestroyInstance,
    HostReported,
    LiveMigrate,
    MigrateOut,
    PauseInstance,
    SpawnInstance,
    StepAnswered,
)
from tests.tiny_driver import TinyDriver, guest_json
from tests.waiting import WAIT_SECONDS

ANA, BO = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"
REPORT = TinyDriver().report()


class Bad(TinyDriver):
    """A driver whose faults are set by the test."""

    capabilities = frozenset({"migrate", "pause"})
    reporting: Callable[[], Any] = staticmethod(lambda: REPORT)
    listing: Callable[[], Any] = staticmethod(list)
    moving: Callable[[], Any] = staticmethod(lambda: {"path": "/disks"})

    def report(self) -> NodeReport:
        return self.reporting()  # type: ignore[no-any-return]

    def guests(self) -> list[GuestInfo]:
        return self.listing()  # type: ignore[no-any-return]

    def migrate_out(self, guest: Any, destination: str, progress: Any) -> Mapping[str, Any]:
        return self.moving()  # type: ignore[no-any-return]


class Host:
    """An agent's host with one such driver; its lanes are one thread each."""

    def __init__(self, folder: Path) -> None:
        self.driver = Bad()
        self.sent: list[Any] = []
        self.count = 0
        self.config = HostConfig(host="host-1", cell="cell1", driver="tiny", journal_path=folder / "1.sqlite3")
        self.executors = (KeyedExecutor("commands", 1), KeyedExecutor("urgent", 1))
        self.answers: queue.Queue[StepAnswered] = queue.Queue()
        shared = AgentResources(*self.executors, send=self._send)
        self.agent = HostAgent(self.config, lambda: self.driver, shared)

    def _send(self, cell: str, message: Any) -> None:
        self.sent.append(message)
        if isinstance(message, StepAnswered):
            self.answers.put(message)

    def does(self, command: type[Any], uuid: str = ANA, **values: Any) -> StepAnswered:
        """Return the answer to a command."""
        self.count += 1
        key = f"k{self.count}"
        address = {"step_key": key, "fencing_token": self.count, "run_uuid": "r", "cell": "cell1", "host": "host-1"}
        self.agent.receive(encode(command(**address, instance_uuid=uuid, **values)))
        answer = self.answers.get(timeout=WAIT_SECONDS)  # else its lane is stuck
        assert answer.step_key == key
        return answer


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    made.agent.run()
    yield made
    made.agent.stop()
    assert all(executors.stop(WAIT_SECONDS) for executors in made.executors)


def leave(*_: Any) -> None:
    sys.exit("I have enough")


def test_a_driver_that_raises_system_exit_fails_its_command_only(host: Host) -> None:
    host.driver.spawning = leave
    for uuid in (ANA, BO, ANA):
        answer = host.does(SpawnInstance, uuid, guest=guest_json(uuid))
        assert answer.error == {
            "class": "DriverError",
            "message": "The driver failed unexpectedly (SystemExit).",
            "is_reschedulable": True,
        }
    host.driver.spawning = lambda guest, progress: None
    assert host.does(SpawnInstance, guest=guest_json(ANA)).ok


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        ({"path": Path("/disks")}, "Object of type PosixPath is not JSON serializable"),
        ({"size": float("nan")}, "Out of range float values are not JSON compliant"),
        (["disks"], "dictionary update sequence"),
        (7, "'int' object is not iterable"),
    ],
)
def test_an_answer_that_is_no_json_is_a_failure_that_is_kept(host: Host, answers: Any, complaint: str) -> None:
    host.driver.moving = lambda: answers
    answer = host.does(MigrateOut, guest=guest_json(ANA), destination="host-2")
    assert (answer.ok, answer.result) == (False, {})
    assert answer.error is not None
    assert answer.error["class"] == "DriverError"
    assert complaint in answer.error["message"]


def test_a_command_that_repeatedly_ends_the_process_is_given_up(host: Host, tmp_path: Path) -> None:
    folder = tmp_path / "1.underway"
    for _ in range(3):
        CommandAttempts(folder).begin("k1")  # and there the process ended
    answer = host.does(SpawnInstance, guest=guest_json(ANA))
    assert answer.error is not None
    assert "The agent's process ended 3 times while the driver was at this" in answer.error["message"]
    CommandAttempts(folder).begin("k2")  # it may have been another's fault
    assert host.does(SpawnInstance, guest=guest_json(ANA)).ok
    assert list(folder.iterdir()) == []


def test_a_guest_that_is_still_listed_was_not_destroyed(host: Host) -> None:
    host.driver.listing = lambda: [GuestInfo(ANA, PowerState.RUNNING)]
    answer = host.does(DestroyInstance)
    assert answer.error is not None
    assert answer.error["message"] == "The driver says that it destroyed the guest, and still lists it."
    assert host.does(DestroyInstance, BO).ok


def test_an_unsupported_operation_is_distinguished_from_a_failed_one(host: Host) -> None:
    answer = host.does(PauseInstance)
    assert answer.error is not None
    assert (answer.error["class"], answer.error["is_reschedulable"]) == ("NotSupported", True)


JUNK: list[tuple[Any, str]] = [
    (None, "is a NoneType and no NodeReport"),
    ({"node": "n"}, "is a dict and no NodeReport"),
    (replace(REPORT, traits=None), "cannot be sent: 'NoneType' object is not iterable"),  # type: ignore[arg-type]
    (replace(REPORT, cpu_info={"load": {1}}), "cannot be sent: Object of type set"),
    (replace(REPORT, metrics={"cpu.percent": float("inf")}), "cannot be sent: Out of range"),
    (replace(REPORT, node=""), "node: "),
    (replace(REPORT, node="n" * 300), "node: "),
    (replace(REPORT, hypervisor_version="seven"), "hypervisor_version: 'seven' is not of type 'integer'"),  # type: ignore[arg-type]
    (replace(REPORT, inventory={"VCPU": Inventory("many")}), "inventory.VCPU.total: 'many' is not"),  # type: ignore[arg-type]
    (replace(REPORT, inventory={"VCPU": Inventory(10**30)}), "inventory.VCPU.total: "),
    (
        replace(REPORT, inventory={"VCPU": Inventory(4, allocation_ratio=0.0)}),
        "inventory.VCPU.allocation_ratio: ",
    ),
    (replace(REPORT, inventory={"vcpu!": Inventory(4)}), "inventory: 'vcpu!' does not match"),
    (replace(REPORT, traits=frozenset({"not a trait"})), "traits.0: 'not a trait' does not match"),
    (replace(REPORT, supported_instances=(("x86_64",),)), "supported_instances.0: "),  # type: ignore[arg-type]
    (replace(REPORT, numa_cells=("cell",)), "cannot be sent: dictionary update sequence"),  # type: ignore[arg-type]
    (replace(REPORT, disk_available_least_gb="much"), "disk_available_least_gb: 'much'"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("report", "complaint"), JUNK, ids=[complaint for _, complaint in JUNK])
def test_a_report_that_cannot_be_used_is_not_sent_and_named_once(
    host: Host, caplog: pytest.LogCaptureFixture, report: Any, complaint: str
) -> None:
    host.sent.clear()
    host.driver.reporting = lambda: report
    host.agent.run()
    host.agent.run()
    assert [one for one in host.sent if isinstance(one, HostReported)] == []
    (log,) = [one.getMessage() for one in caplog.records if "host cannot report" in one.getMessage()]
    assert complaint in log
    host.driver.reporting = lambda: REPORT
    host.agent.run()
    (report,) = [one for one in host.sent if isinstance(one, HostReported)]
    assert (report.report["node"], report.driver_statistics["faults"]) == (REPORT.node, 1)
    assert complaint[:40] in report.driver_statistics["notes"][0]["text"]


@pytest.mark.parametrize(
    ("guests", "complaint"),
    [
        (None, "lists its guests as a NoneType"),
        ({ANA: 1}, "lists its guests as a dict"),
        ([ANA], "lists a str among its guests"),
        ([GuestInfo(7, PowerState.RUNNING)], "lists a guest in the power state"),  # type: ignore[arg-type]
        ([GuestInfo(ANA, 99)], "lists a guest in the power state '99'"),  # type: ignore[arg-type]
    ],
)
def test_malformed_guests_are_not_reported(host: Host, guests: Any, complaint: str) -> None:
    host.driver.listing = lambda: guests
    with pytest.raises(DriverError, match=complaint):
        driver_validation.validate_guests(host.driver.guests())
    host.sent.clear()
    host.agent.run()
    assert host.sent == []


def test_a_connection_closed_after_its_guest_moved_is_not_reported_as_failed(host: Host) -> None:
    """Otherwise the other host would be commanded to destroy the only copy of the guest."""
    host.driver.capabilities = frozenset({"live_migrate"})
    host.driver.live_migrate = leave  # type: ignore[method-assign]
    assert host.does(LiveMigrate, guest=guest_json(ANA), target={}, is_block_migration=None).result == {HAS_LEFT: True}
    host.driver.listing = lambda: [GuestInfo(BO, PowerState.RUNNING)]
    answer = host.does(LiveMigrate, BO, guest=guest_json(BO), target={}, is_block_migration=None)
    assert (answer.ok, answer.result) == (False, {})


def test_a_driver_that_exits_at_a_query_has_failed(host: Host) -> None:
    host.driver.capabilities = frozenset({"diagnostics", "serial_console"})
    for name in ("diagnostics", "open_console"):
        setattr(host.driver, name, leave)
    with pytest.raises(DriverError, match=r"unexpectedly \(SystemExit\)"):
        host.agent.ask_guest(ANA, GuestQuestion.DIAGNOSTICS)
    with pytest.raises(DriverError, match=r"unexpectedly \(SystemExit\)"):
        host.agent.open_console(ANA, ConsoleKind.SERIAL)
    host.driver.diagnostics = lambda _: {"cpus": {1}}  # type: ignore[method-assign, return-value]
    with pytest.raises(DriverError, match="cannot be sent: Object of type set"):
        host.agent.ask_guest(ANA, GuestQuestion.DIAGNOSTICS)


def test_a_database_lost_during_a_query_is_unresponsive_until_it_answers(host: Host) -> None:
    host.sent.clear()
    host.driver.reporting = leave
    host.agent.run()
    assert host.sent == []
    host.driver.reporting = lambda: REPORT
    host.agent.run()
    assert [type(one) for one in host.sent] == [HostReported]


@pytest.mark.parametrize("log", ["text", None, 7, leave])
def test_a_console_that_is_none_keeps_no_other_from_being_followed(host: Host, log: Any) -> None:
    sent: list[Any] = []
    follower = ConsoleFollower(host.config, host.driver, lambda _, message: sent.append(message))
    host.driver.consoles[BO] = b"hello\n"
    original = host.driver.console_log

    def speak(instance_uuid: str, offset: int) -> bytes:
        if instance_uuid == BO:
            return original(instance_uuid, offset)
        return log() if callable(log) else log  # type: ignore[no-any-return]

    host.driver.console_log = speak  # type: ignore[method-assign]
    follower.follow([ANA, BO])
    assert [piece["instance_uuid"] for message in sent for piece in message.pieces] == [BO]


def test_an_unchanged_inventory_is_not_validated_again(
    host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    looks: list[Any] = []
    original = driver_validation._REPORT.iter_errors
    monkeypatch.setattr(
        driver_validation,
        "_REPORT",
        type("Counting", (), {"iter_errors": lambda _, it: looks.append(it) or original(it)})(),
    )
    journal = HostJournal(tmp_path / "2.sqlite3")
    beats = Heartbeat(host.config, host.driver, journal=journal, send=lambda *_: None)
    for version in (1, 1, 2, 2):
        host.driver.reporting = lambda version=version: replace(REPORT, hypervisor_version=version)  # type: ignore[misc]
        beats.beat()
    journal.close()
    assert [reported["hypervisor_version"] for reported in looks] == [1, 2]
