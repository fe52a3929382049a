"""The agent: reports, restarts of drivers, consoles and commands of many hosts side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from conductor.compute import heartbeat
from conductor.compute.agent import ComputeAgent
from conductor.compute.heartbeat import boot_time
from conductor.compute.hosts import HostConfig
from conductor.core.compute_driver import ComputeDriver, GuestInfo, GuestSpec, NodeReport
from conductor.core.errors import DriverError, NotFound
from conductor.core.metrics import BOOTED_AT
from conductor.rpc.codec import encode
from conductor.rpc.messages import (
    ConsolesWritten,
    DestroyInstance,
    GuestsCounted,
    HostReported,
    SpawnInstance,
    StepAnswered,
)
from conductor.rpc.versions import SERVICE_VERSION
from tests.tiny_driver import TinyDriver, guest_json
from tests.waiting import wait_until

ANA = "00000000-0000-4000-8000-00000000000a"
SOON_SECONDS = 0.05
NEVER_SECONDS = 3600.0

made: dict[str, TinyDriver] = {}


class Registered(TinyDriver):
    """A driver that the test finds again by its host."""

    def __init__(self, host: str, options: Any, open_image: Any) -> None:
        super().__init__(host, options, open_image)
        made[host] = self
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


class Refusing(Registered):
    """Starts at the third attempt only."""

    attempts = 0

    def start(self) -> None:
        type(self).attempts += 1
        if self.attempts < 3:
            raise DriverError("the hypervisor does not answer")


class Hanging(Registered):
    """Never comes back from its report until it is let go."""

    may_end = threading.Event()

    def report(self) -> NodeReport:
        assert self.may_end.wait(NEVER_SECONDS)
        return super().report()


class Moody(Registered):
    is_broken = False
    failures = 0

    def guests(self) -> list[GuestInfo]:
        if self.is_broken:
            self.failures += 1
            raise DriverError("lost the hypervisor")
        return super().guests()


class Reporting(Registered):
    """Says when a guest changed by itself."""

    def watch(self, changed: Callable[[], None]) -> None:
        self.changed = changed


class Counting(Registered):
    """Samples usage of its guests; ANA's usage is unknown."""

    capabilities = frozenset({"diagnostics"})

    def diagnostics(self, instance_uuid: str) -> dict[str, Any]:
        if instance_uuid == ANA:
            raise DriverError("its monitor does not answer")
        return {"cpus": [{"time": 2_000_000_000}, {"time": 500_000_000}], "memory": {"used": 64}, "nics": []}


DRIVERS: dict[str, type[ComputeDriver]] = {
    "reporting": Reporting,
    "tiny": Registered,
    "counting": Counting,
    "refusing": Refusing,
    "hanging": Hanging,
    "moody": Moody,
}


class Conductor:
    """The agent's counterpart."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def send(self, cell: str, message: Any) -> None:
        self.heard.append((cell, message))

    def of(self, kind: type[Any], host: str = "") -> list[Any]:
        return [m for _, m in self.heard if isinstance(m, kind) and host in ("", m.host)]

    def until(self, ask: Callable[[], Any]) -> None:
        wait_until("the conductor has heard it", ask, details=lambda: self.heard)


@pytest.fixture
def conductor() -> Conductor:
    return Conductor()


@pytest.fixture
def run(tmp_path: Path, conductor: Conductor) -> Iterator[Callable[..., ComputeAgent]]:
    agents: list[ComputeAgent] = []

    def start(*drivers: str, heartbeat_seconds: float = NEVER_SECONDS) -> ComputeAgent:
        hosts = [
            HostConfig(
                host=f"host-{number}",
                cell=f"cell{number}",
                driver=driver,
                journal_path=tmp_path / f"host-{number}.sqlite3",
                availability_zone="az-1",
                options={"number": number},
            )
            for number, driver in enumerate(drivers, start=1)
        ]
        agent = ComputeAgent(hosts, DRIVERS, lambda _: None, heartbeat_seconds, send=conductor.send)  # type: ignore[arg-type, return-value]
        agents.append(agent)
        agent.start()
        return agent

    yield start
    Hanging.may_end.set()
    for agent in agents:
        agent.stop()
    Hanging.may_end.clear()


def spawn(key: str, token: int, host: str = "host-1", uuid: str = ANA) -> dict[str, Any]:
    return encode(SpawnInstance(**_address(key, token, host, uuid), guest=guest_json(uuid)))


def destroy(key: str, token: int, host: str = "host-1", uuid: str = ANA) -> dict[str, Any]:
    return encode(DestroyInstance(**_address(key, token, host, uuid)))


def _address(key: str, token: int, host: str, uuid: str) -> dict[str, Any]:
    return {
        "step_key": key,
        "fencing_token": token,
        "run_uuid": "r",
        "cell": host.replace("host-", "cell"),
        "host": host,
        "instance_uuid": uuid,
    }


def test_a_guest_that_changed_by_itself_is_reported_soon(
    run: Callable[..., ComputeAgent], conductor: Conductor
) -> None:
    run("reporting")
    conductor.until(lambda: len(conductor.of(HostReported)) == 1)
    driver = made["host-1"]
    assert isinstance(driver, Reporting)
    driver.running[ANA] = GuestSpec.from_json(guest_json(ANA))
    driver.changed()
    conductor.until(lambda: len(conductor.of(HostReported)) == 2)
    assert list(conductor.of(HostReported)[-1].guests) == [ANA]


def test_every_host_reports_at_once_and_in_full(run: Callable[..., ComputeAgent], conductor: Conductor) -> None:
    agent = run("tiny", "tiny")
    conductor.until(lambda: len(conductor.of(HostReported)) == 2)
    cell, report = next((c, m) for c, m in conductor.heard if m.host == "host-2")
    assert cell == report.cell == "cell2"
    assert (report.driver, report.is_simulated, report.service_version) == ("tiny", True, SERVICE_VERSION)
    assert report.availability_zone == "az-1"
    assert report.guests == {}
    values = {"actions": [], **boot_time()}  # what its driver can do beside the least
    reported = replace(made["host-2"].report(), capabilities=values)
    assert NodeReport.from_json(report.report) == reported
    now = time.time()
    assert 0 < report.report["capabilities"][BOOTED_AT] < now
    assert made["host-2"].options == {"number": 2}
    assert agent.has_host("host-1")
    assert not agent.has_host("host-3")
    with pytest.raises(NotFound, match="host-3"):
        agent.receive(spawn("k1", 1, "host-3"))


def test_reports_come_again_and_again_with_rising_numbers(
    run: Callable[..., ComputeAgent], conductor: Conductor
) -> None:
    agent = run("tiny", heartbeat_seconds=SOON_SECONDS)
    conductor.until(lambda: len(conductor.of(HostReported)) >= 4)
    agent.stop()
    run("tiny", heartbeat_seconds=SOON_SECONDS)
    count = len(conductor.of(HostReported))
    conductor.until(lambda: len(conductor.of(HostReported)) >= count + 4)
    numbers = [report.report_number for report in conductor.of(HostReported)]
    assert numbers == sorted(set(numbers))


def test_a_finished_command_is_reported_soon(run: Callable[..., ComputeAgent], conductor: Conductor) -> None:
    agent = run("tiny")
    conductor.until(lambda: conductor.of(HostReported))
    agent.receive(spawn("k1", 1))
    conductor.until(lambda: len(conductor.of(HostReported)) == 2)
    assert conductor.of(HostReported)[1].guests == {ANA: 1}
    agent.receive(destroy("k2", 2))
    conductor.until(lambda: len(conductor.of(HostReported)) == 3)
    assert conductor.of(HostReported)[2].guests == {}
    assert [answer.ok for answer in conductor.of(StepAnswered)] == [True, True]


def test_many_commands_make_few_reports(
    run: Callable[..., ComputeAgent], conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conductor.compute.host_agent.MIN_REPORT_INTERVAL_SECONDS", NEVER_SECONDS)
    agent = run("tiny")
    conductor.until(lambda: conductor.of(HostReported))
    for number in range(100):
        agent.receive(spawn(f"k{number}", number, uuid=f"00000000-0000-4000-8000-{number:012}"))
    conductor.until(lambda: len(conductor.of(StepAnswered)) == 100)
    assert len(conductor.of(HostReported)) == 1, "each command would make one; all of them wait for the interval"
    monkeypatch.setattr("conductor.compute.host_agent.MIN_REPORT_INTERVAL_SECONDS", 0.0)
    agent.receive(spawn("k100", 100, uuid=f"00000000-0000-4000-8000-{100:012}"))
    conductor.until(lambda: len(conductor.of(HostReported)[-1].guests) == 101)
    assert len(conductor.of(HostReported)) <= 3


def test_a_driver_that_does_not_start_is_named_once_and_tried_again_while_others_work(
    run: Callable[..., ComputeAgent],
    conductor: Conductor,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("conductor.compute.host_agent.FIRST_BACKOFF_SECONDS", SOON_SECONDS)
    Refusing.attempts = 0
    agent = run("refusing", "tiny")
    agent.receive(spawn("k1", 1))  # too early, or just in time: in either case nothing breaks
    conductor.until(lambda: conductor.of(HostReported, "host-2"))
    conductor.until(lambda: conductor.of(HostReported, "host-1"))
    assert Refusing.attempts == 3
    assert caplog.text.count("host does not start: host=host-1: the hypervisor does not answer") == 1
    agent.receive(spawn("k1", 1))
    conductor.until(lambda: conductor.of(StepAnswered, "host-1"))


def test_an_unknown_driver_and_a_damaged_journal_are_named_and_stop_no_other(
    run: Callable[..., ComputeAgent], conductor: Conductor, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "host-2.sqlite3").write_bytes(b"no database" * 100)
    run("unheard-of", "tiny", "tiny")
    conductor.until(lambda: conductor.of(HostReported, "host-3"))
    conductor.until(lambda: caplog.text.count("host does not start") == 2)
    assert (
        "There is no driver unheard-of. Known drivers: counting, hanging, moody, refusing, reporting, tiny."
        in caplog.text
    )
    assert f"Host journal {tmp_path / 'host-2.sqlite3'}: file is not a database." in caplog.text
    assert conductor.of(HostReported, "host-1") == conductor.of(HostReported, "host-2") == []


def test_a_driver_that_hangs_is_unresponsive_and_delays_no_other(
    run: Callable[..., ComputeAgent], conductor: Conductor
) -> None:
    run("hanging", "hanging", "hanging", "tiny", heartbeat_seconds=SOON_SECONDS)
    conductor.until(lambda: len(conductor.of(HostReported, "host-4")) >= 5)
    assert len(conductor.of(HostReported)) == len(conductor.of(HostReported, "host-4"))
    Hanging.may_end.set()
    for host in ("host-1", "host-2", "host-3"):
        conductor.until(lambda host=host: conductor.of(HostReported, host))  # type: ignore[misc]


def test_a_lost_hypervisor_makes_its_host_unresponsive_until_it_is_back(
    run: Callable[..., ComputeAgent], conductor: Conductor, caplog: pytest.LogCaptureFixture
) -> None:
    run("moody", heartbeat_seconds=SOON_SECONDS)
    conductor.until(lambda: conductor.of(HostReported))
    driver = made["host-1"]
    assert isinstance(driver, Moody)
    driver.is_broken = True
    wait_until("a report fails", lambda: driver.failures >= 1)
    count = len(conductor.of(HostReported))
    wait_until("more reports fail", lambda: driver.failures >= 6)
    assert len(conductor.of(HostReported)) == count
    assert caplog.text.count("host cannot report") == 1
    assert "host cannot report: host=host-1: lost the hypervisor" in caplog.text
    driver.is_broken = False
    conductor.until(lambda: len(conductor.of(HostReported)) > count)


def test_usage_of_guests_is_reported_in_one_message(
    run: Callable[..., ComputeAgent], conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "MAX_FIRST_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(heartbeat, "USAGE_INTERVAL_SECONDS", 0.0)
    agent = run("counting", heartbeat_seconds=SOON_SECONDS)
    others = [str(UUID(int=number)) for number in (1, 2)]
    conductor.until(agent.has_started)
    made["host-1"].running = {uuid: guest_json(uuid) for uuid in (ANA, *others)}
    conductor.until(lambda: conductor.of(GuestsCounted))
    reported = conductor.of(GuestsCounted)[-1]
    assert (reported.host, reported.guests) == ("host-1", {uuid: [2.5, 64, None, None, None, None] for uuid in others})


def test_consoles_of_guests_are_followed(
    run: Callable[..., ComputeAgent], conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conductor.compute.agent.CONSOLE_SECONDS", SOON_SECONDS)
    agent = run("tiny")
    conductor.until(lambda: conductor.of(HostReported))
    agent.receive(spawn("k1", 1))
    made["host-1"].consoles[ANA] = b"boot\n"
    conductor.until(lambda: conductor.of(ConsolesWritten))
    made["host-1"].consoles[ANA] += b"login: "
    conductor.until(lambda: "login" in conductor.of(ConsolesWritten)[-1].pieces[0]["text"])
    written = [(message.host, message.pieces) for message in conductor.of(ConsolesWritten)]
    assert written == [
        ("host-1", [{"instance_uuid": ANA, "offset": 0, "text": "boot\n"}]),
        ("host-1", [{"instance_uuid": ANA, "offset": 5, "text": "login: "}]),
    ]


def test_a_stopped_agent_lets_go_of_everything_and_answers_after_its_restart(
    run: Callable[..., ComputeAgent], conductor: Conductor
) -> None:
    agent = run("tiny")
    conductor.until(lambda: conductor.of(HostReported))
    agent.receive(spawn("k1", 1))
    conductor.until(lambda: conductor.of(StepAnswered))
    driver = made["host-1"]
    agent.stop()
    assert isinstance(driver, Registered)
    assert driver.is_stopped
    agent.receive(spawn("k2", 2))  # no thread takes it
    agent = run("tiny")
    conductor.until(lambda: len(conductor.of(HostReported)) >= 2)
    agent.receive(spawn("k1", 1))
    conductor.until(lambda: len(conductor.of(StepAnswered)) == 2)
    first, again = conductor.of(StepAnswered)
    assert first == again
    assert made["host-1"].calls == []


def test_an_agent_that_never_started_can_be_stopped(tmp_path: Path) -> None:
    config = HostConfig(host="host-1", cell="cell1", driver="tiny", journal_path=tmp_path / "j.sqlite3")
    ComputeAgent([config], DRIVERS, lambda _: None, 1.0, send=lambda *_: None).stop()  # type: ignore[arg-type, return-value]
    assert not (tmp_path / "j.sqlite3").exists()
