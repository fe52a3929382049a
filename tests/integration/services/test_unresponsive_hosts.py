"""Unresponsive hosts are reported once, however many conductors check."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

from conductor.actors.periodic import report_unresponsive_hosts
from conductor.cell_db.models import Service
from conductor.db.transactions import database_time
from conductor.journal.models import Event, PeriodicLease
from conductor.services.fleet import unresponsive_hosts
from tests import factories
from tests.compute_rows import make_host
from tests.counting import Captured

CELL = "cell1"
pytestmark = pytest.mark.usefixtures("databases")


@pytest.fixture(autouse=True)
def hosts(databases: None, settings: Any) -> None:
    factories.cells()
    settings.NOVELLA_HOST_DOWN_SECONDS = 30
    for name in ("one", "two"):
        make_host(CELL, name)
        heard(name, 0)
    assert unresponsive_hosts.report(CELL) == []  # the first look
    PeriodicLease.objects.using(CELL).update(done_at=database_time(CELL) - timedelta(seconds=60))


def heard(host: str, seconds_ago: float) -> None:
    at = database_time(CELL) - timedelta(seconds=seconds_ago)
    assert Service.objects.using(CELL).filter(host=host).update(last_seen_at=at)


def emitted() -> list[tuple[str, str]]:
    return list(Event.objects.using(CELL).order_by("pk").values_list("topic", "kind"))


def test_a_host_is_reported_once_and_again_when_it_responded_in_between() -> None:
    assert unresponsive_hosts.report(CELL) == []
    heard("one", 31)
    report_unresponsive_hosts(["default", "cell0", CELL])
    report_unresponsive_hosts([CELL])
    assert emitted() == [("host:one", "host.unresponsive")]
    PeriodicLease.objects.using(CELL).update(done_at=database_time(CELL) - timedelta(seconds=0.5))
    heard("two", 30.2)
    assert unresponsive_hosts.report(CELL) == ["two"]
    heard("one", 0)
    PeriodicLease.objects.using(CELL).update(done_at=database_time(CELL) - timedelta(seconds=60))
    heard("two", 300)
    heard("one", 31)
    assert unresponsive_hosts.report(CELL) == ["one"]


def test_many_are_reported_pass_by_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unresponsive_hosts, "MOST_AT_ONCE", 1)
    heard("one", 31)
    heard("two", 32)
    assert [unresponsive_hosts.report(CELL) for _ in range(3)] == [["two"], ["one"], []]


def test_hosts_unresponsive_before_the_first_pass_are_not_reported() -> None:
    PeriodicLease.objects.using(CELL).all().delete()
    heard("one", 3000)
    for _ in range(2):
        assert unresponsive_hosts.report(CELL) == []
    assert emitted() == []


def test_a_check_of_a_cell_whose_hosts_all_respond_writes_nothing() -> None:
    with Captured(connections[CELL]) as requested:
        assert unresponsive_hosts.report(CELL) == []
    assert [one["sql"].split()[0] for one in requested] == ["SELECT"] * 3
