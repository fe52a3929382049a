"""The intake of reports: in sets, whichever way they come, and only from hosts with valid keys about themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conductor.actors import conductor as conductor_actors
from conductor.actors.report_intake import INTAKE, ReportIntake
from conductor.cell_db.models import ConsoleAddress, Service
from conductor.core.context import system_context
from conductor.core.states import PowerState
from conductor.rpc import trust
from conductor.rpc.envelope import Refused
from conductor.rpc.messages import ConsolesOffered, HostReported
from conductor.services.hosts import keys as host_keys
from tests import keys
from tests.fixtures.host_reports import CELL, _cells, clock, report
from tests.tiny_driver import TinyDriver
from tests.waiting import wait_until

__all__ = ["_cells", "clock"]

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

HOSTS = ["intake-1", "intake-2", "intake-3"]


@pytest.fixture(autouse=True)
def _enrolled(tmp_path: Path) -> None:
    for host in HOSTS:
        keys.enroll(tmp_path, host, CELL)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[Refused]:
    found: list[Refused] = []
    monkeypatch.setattr(trust, "_listeners", [found.append])
    return found


@pytest.fixture
def running() -> Iterator[ReportIntake]:
    INTAKE.start()
    yield INTAKE
    INTAKE.stop()


def report_of(host: str, number: int, **values: Any) -> HostReported:
    return report(number, **{"host": host, "report": TinyDriver(host).report().to_json(), **values})


def numbers() -> dict[str, int]:
    return dict(Service.objects.using(CELL).values_list("host", "report_number"))


def until(ask: Callable[[], Any]) -> None:
    wait_until("the reports are recorded", ask, details=numbers)


def test_reports_of_hosts_of_this_process_are_recorded_without_a_broker(running: ReportIntake) -> None:
    running.put_own([(CELL, report_of(host, 1)) for host in HOSTS])
    until(lambda: numbers() == dict.fromkeys(HOSTS, 1))
    running.put_own([(CELL, report_of(host, 2)) for host in HOSTS])
    until(lambda: numbers() == dict.fromkeys(HOSTS, 2))


def test_signed_reports_come_into_the_same_sets(running: ReportIntake, tmp_path: Path) -> None:
    identity = keys.enroll(tmp_path, "intake-9", CELL)
    conductor_actors.conductor_message(keys.sealed(identity.signer, CELL, report_of("intake-9", 1)))
    running.put_own([(CELL, report_of("intake-1", 1))])
    until(lambda: numbers() == {"intake-9": 1, "intake-1": 1})


def test_the_newest_report_of_a_host_wins_in_whatever_order_they_come(running: ReportIntake) -> None:
    running.put_own([(CELL, report_of("intake-1", 1))])
    until(lambda: numbers() == {"intake-1": 1})
    for number in (4, 3, 2):
        running.put_own([(CELL, report_of("intake-1", number, driver_statistics={"faults": 1}))])
    until(lambda: numbers() == {"intake-1": 4} and not running.has_reports)


def test_a_host_of_this_process_reports_about_itself_only(refused: list[Refused]) -> None:
    intake = ReportIntake()
    named = report_of("intake-1", 1, report={**TinyDriver("intake-1").report().to_json(), "node": "intake-2"})
    intake.put_own([(CELL, named), ("cell2", report_of("intake-2", 1)), (CELL, report_of("intake-3", 1))])
    until(lambda: intake.record_waiting() or not intake.has_reports)
    until(lambda: numbers() == {"intake-3": 1})
    assert [(one.sender, one.cause) for one in refused] == [("host:intake-1", "host"), ("host:intake-2", "cell")]


def test_a_host_whose_key_was_revoked_is_refused_as_on_the_wire(refused: list[Refused]) -> None:
    host_keys.revoke(system_context(), "intake-2")
    intake = ReportIntake()
    intake.put_own([(CELL, report_of(host, 1)) for host in HOSTS])
    intake.put_own([(CELL, report_of("intake-unknown", 1))])
    until(lambda: intake.record_waiting() or not intake.has_reports)
    until(lambda: numbers() == {"intake-1": 1, "intake-3": 1})
    assert [(one.sender, one.cause) for one in refused] == [("host:intake-2", "key")]


def test_a_report_that_cannot_be_stored_stops_neither_others_nor_the_intake(running: ReportIntake) -> None:
    bad = replace(report_of("intake-2", 1), report={"node": "intake-2"})
    running.put_own([(CELL, report_of("intake-1", 1)), (CELL, bad), (CELL, report_of("intake-3", 1))])
    until(lambda: numbers() == {"intake-1": 1, "intake-3": 1})
    running.put_own([(CELL, report_of("intake-2", 2, guests={"no-uuid": PowerState.RUNNING}))])
    until(lambda: numbers().get("intake-2") == 2)


def test_addresses_of_consoles_are_stored_in_a_set() -> None:
    offers = [
        ConsolesOffered(host=host, address="127.0.0.1", tcp_port=7000, fingerprint="f" * 64, key="k" * 32)
        for host in HOSTS
    ]
    for _ in range(2):
        intake = ReportIntake()
        intake.put_own([(CELL, one) for one in offers])
        intake.record_waiting()
        found = ConsoleAddress.objects.using(CELL).values_list("host", "tcp_port")
        assert sorted(found) == [(host, 7000) for host in HOSTS]
