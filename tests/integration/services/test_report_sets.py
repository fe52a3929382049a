"""Reports of many hosts at once: the same effects as one by one, with the queries of one report."""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from typing import Any

import pytest
from django.db import connections

from conductor.api_db.models import AggregateHost, HostMapping
from conductor.cell_db.models import ComputeNode, Service
from conductor.core.states import PowerState
from conductor.db.transactions import database_now
from conductor.journal.models import Event
from conductor.placement.models import ProviderInventory, ResourceProvider
from conductor.rpc.messages import HostReported
from conductor.services.fleet import report_sets, reports
from conductor.services.fleet.report_sets import RecordedSet
from tests.counting import Captured
from tests.fixtures.host_reports import CELL, Clock, _cells, clock, everything, make_instance, report
from tests.tiny_driver import TinyDriver

__all__ = ["_cells", "clock"]

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

HOSTS = [f"host-{number}" for number in range(12)]
LONG_AGO_SECONDS = -3600.0


def report_of(host: str, number: int, guests: dict[str, int] | None = None, **values: Any) -> HostReported:
    return report(number, guests, **{"host": host, "report": TinyDriver(host).report().to_json(), **values})


def take(messages: list[HostReported]) -> RecordedSet:
    """Record a set as conductors do, with what is recorded singly among the stored ones."""
    return _with_others(report_sets.record_all(CELL, messages))


def compare(messages: list[HostReported]) -> RecordedSet:
    return _with_others(report_sets.compare_all(CELL, messages))


def _with_others(recorded: RecordedSet) -> RecordedSet:
    singly = [message for message in recorded.others if report_sets.record_or_log(CELL, message)]
    return RecordedSet([*recorded.stored, *singly], recorded.due, [])


def all_report(number: int, hosts: list[str] = HOSTS) -> list[HostReported]:
    return [report_of(host, number) for host in hosts]


def services() -> dict[str, Service]:
    return {row.host: row for row in Service.objects.using(CELL).all()}


def hosts_of(messages: list[HostReported]) -> list[str]:
    return [message.host for message in messages]


def writes(captured: Captured) -> list[str]:
    return [query["sql"].split()[0] for query in captured if query["sql"].split()[0] not in ("BEGIN", "COMMIT")]


def test_a_set_of_first_reports_makes_the_rows_of_each() -> None:
    recorded = take(all_report(1))
    assert hosts_of(recorded.stored) == HOSTS
    assert recorded.due == []
    assert set(services()) == set(HOSTS) == set(HostMapping.objects.values_list("host", flat=True))
    assert set(ResourceProvider.objects.values_list("name", flat=True)) == set(HOSTS)


def test_heartbeats_of_many_hosts_are_one_update_in_one_database() -> None:
    take(all_report(1))
    before, seen = everything()[1:], services()
    with Captured(connections[CELL]) as cell, Captured(connections["default"]) as api:
        recorded = take(all_report(2))
    assert writes(cell) == ["UPDATE"]
    assert len(api) == 0
    assert (sorted(hosts_of(recorded.stored)), recorded.due) == (sorted(HOSTS), [])
    for host, row in services().items():
        assert row.report_number == 2
        assert row.last_seen_at > seen[host].last_seen_at
    assert everything()[1:] == before


def test_an_older_report_in_a_set_changes_nothing() -> None:
    take(all_report(5))
    before = services()["host-3"]
    recorded = take([report_of(host, 4 if host == "host-3" else 6) for host in HOSTS])
    assert "host-3" not in hosts_of(recorded.stored)
    after = services()
    assert (after["host-3"].report_number, after["host-3"].last_seen_at) == (5, before.last_seen_at)
    assert {after[host].report_number for host in HOSTS if host != "host-3"} == {6}


def test_a_report_that_cannot_be_stored_changes_no_other(caplog: pytest.LogCaptureFixture) -> None:
    take(all_report(1))
    bad = replace(report_of("host-3", 2), report={"node": "host-3"})
    new = report_of("host-99", 1)
    others = [report_of(host, 2) for host in HOSTS if host != "host-3"]
    with caplog.at_level(logging.ERROR):
        recorded = take([bad, new, *others])
    assert "report not stored: host=host-3" in caplog.text
    assert sorted(hosts_of(recorded.stored)) == sorted({*HOSTS, "host-99"} - {"host-3"})
    assert services()["host-3"].report_number == 1
    assert {row.report_number for host, row in services().items() if host not in ("host-3", "host-99")} == {2}


def test_a_host_of_another_cell_in_a_set_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    reports.record("cell2", report_of("host-1", 1, cell="cell2"))
    recorded = take(all_report(2))
    assert hosts_of(recorded.stored) == [host for host in HOSTS if host != "host-1"]
    assert "host-1" not in services()
    assert "host-1 belongs to cell2, not to cell1" in caplog.text


def test_other_guests_and_hosts_that_come_back_are_taken_up_in_a_set() -> None:
    take(all_report(1))
    instance = make_instance(power_state=PowerState.NOSTATE)
    Service.objects.using(CELL).filter(host="host-2").update(last_seen_at=database_now(LONG_AGO_SECONDS))
    numbers = dict(ComputeNode.objects.using(CELL).values_list("host", "change_number"))
    guests = {str(instance.uuid): PowerState.RUNNING}
    take([report_of(host, 2, guests if host == "host-1" else None) for host in HOSTS])
    instance.refresh_from_db(using=CELL)
    assert instance.power_state == PowerState.RUNNING
    changed = dict(ComputeNode.objects.using(CELL).values_list("host", "change_number"))
    assert {host for host in HOSTS if changed[host] != numbers[host]} == {"host-2"}


def test_hosts_that_come_back_together_are_read_again_and_reported_by_a_few_queries() -> None:
    take(all_report(1))
    Service.objects.using(CELL).update(last_seen_at=database_now(LONG_AGO_SECONDS))
    number = max(ComputeNode.objects.using(CELL).values_list("change_number", flat=True))
    with Captured(connections[CELL]) as cell, Captured(connections["default"]) as api:
        recorded = report_sets.record_all(CELL, all_report(2))
    assert len(writes(cell)) + len(writes(api)) <= 22
    assert (sorted(hosts_of(recorded.stored)), recorded.due, recorded.others) == (sorted(HOSTS), [], [])
    assert {row.report_number for row in services().values()} == {2}
    assert min(ComputeNode.objects.using(CELL).values_list("change_number", flat=True)) > number
    kinds = Event.objects.using(CELL).filter(topic="host:host-3").order_by("pk").values_list("kind", flat=True)
    assert list(kinds) == ["host.joined", "host.updated"]
    assert len(take(all_report(3)).stored) == len(HOSTS)


def test_a_due_comparison_counts_as_a_heartbeat_and_is_settled_for_all_by_a_few_queries(clock: Clock) -> None:
    take(all_report(1))
    before, digests = everything()[1:], {host: row.report_digest for host, row in services().items()}
    clock.now += reports.FULL_LOOK_SECONDS
    recorded = take(all_report(2))
    assert (recorded.stored, sorted(hosts_of(recorded.due))) == ([], sorted(HOSTS))
    assert {row.report_number for row in services().values()} == {1}
    with Captured(connections[CELL]) as cell, Captured(connections["default"]) as api:
        stored = compare(recorded.due).stored
    assert len(writes(cell)) + len(writes(api)) <= 15
    assert sorted(hosts_of(stored)) == sorted(HOSTS)
    assert everything()[1:] == before
    for host, row in services().items():
        assert (row.report_number, row.report_digest != digests[host]) == (2, True)
    assert len(take(all_report(3)).stored) == len(HOSTS)


def _lose_inventory() -> None:
    ProviderInventory.objects.filter(provider__name="host-3", resource_class="VCPU").update(total=1)


def _lose_trait() -> None:
    ResourceProvider.objects.filter(name="host-3").update(traits=[])


def _lose_provider() -> None:
    ResourceProvider.objects.filter(name="host-3").update(root=None)
    ResourceProvider.objects.filter(name="host-3").delete()


def _lose_node() -> None:
    ComputeNode.objects.using(CELL).filter(host="host-3").update(report={})


def _disable() -> None:
    Service.objects.using(CELL).filter(host="host-3").update(is_disabled=True)


def _leave_zone() -> None:
    AggregateHost.objects.filter(host="host-3").delete()


def _start_guest() -> None:
    make_instance("host-3")


@pytest.mark.parametrize(
    "drift", [_lose_inventory, _lose_trait, _lose_provider, _lose_node, _disable, _leave_zone, _start_guest]
)
def test_a_comparison_of_a_set_mends_what_a_comparison_of_one_mends(drift: Any, clock: Clock) -> None:
    take(all_report(1))
    drift()
    clock.now += reports.FULL_LOOK_SECONDS
    due = take(all_report(2)).due
    assert report_sets.unchanged(CELL, due) == set(HOSTS) - {"host-3"}
    compare(due)
    provider = ResourceProvider.objects.get(name="host-3")
    assert dict(provider.inventories.values_list("resource_class", "total")) == {"MEMORY_MB": 8192, "VCPU": 8}
    assert "COMPUTE_NODE" in provider.traits
    disabled = Service.objects.using(CELL).get(host="host-3").is_disabled
    assert ("COMPUTE_STATUS_DISABLED" in provider.traits) == disabled
    assert ComputeNode.objects.using(CELL).get(host="host-3").report == TinyDriver("host-3").report().to_json()
    assert services()["host-3"].report_number == 2


def test_an_unmanaged_guest_is_found_by_a_comparison() -> None:
    """The digest of such a host is incomplete, so it is never a heartbeat."""
    guests = {str(uuid.uuid4()): PowerState.RUNNING}
    take([report_of("host-1", 1, guests)])
    assert report_sets.unchanged(CELL, [report_of("host-1", 2, guests)]) == set()
