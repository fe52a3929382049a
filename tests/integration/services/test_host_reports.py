"""Hosts' reports: the rows that they write, unchanged rows, and unexpected guests."""

from __future__ import annotations

import logging
import uuid
from typing import Any

import pytest
from django.db import connections

from conductor.api_db.models import Aggregate, AggregateHost, HostMapping
from conductor.cell_db.models import ComputeNode, Instance, Service
from conductor.core.states import PowerState, RunState, TaskState
from conductor.db.transactions import database_now
from conductor.journal.models import Event, OutboxMessage, WorkflowRun
from conductor.placement.models import ResourceProvider
from conductor.rpc.messages import HostReported
from conductor.rpc.versions import SERVICE_VERSION
from conductor.services.fleet import reports
from tests.counting import Captured
from tests.fixtures.host_reports import CELL, Clock, _cells, clock, everything, make_instance, node, report, service
from tests.tiny_driver import TinyDriver

__all__ = ["_cells", "clock"]

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

LONG_AGO_SECONDS = -3600.0


def power_state(instance: Instance) -> int:
    return Instance.objects.using(CELL).get(pk=instance.pk).power_state


def events(topic: str) -> list[str]:
    return list(Event.objects.using(CELL).filter(topic=topic).order_by("pk").values_list("kind", flat=True))


def deferred() -> list[tuple[str, str]]:
    rows = OutboxMessage.objects.using(CELL).filter(is_deferred=True)
    return [(row.host, row.body["body"]["instance_uuid"]) for row in rows]


def test_the_first_report_makes_service_node_mapping_zone_and_provider() -> None:
    reports.record(CELL, report(1))
    row = service()
    assert (row.binary, row.host, row.availability_zone, row.version, row.is_simulated, row.report_number) == (
        "nova-compute",
        "host-1",
        "az-1",
        SERVICE_VERSION,
        True,
        1,
    )
    assert (node().host, node().node, node().driver, node().hypervisor_type) == ("host-1", "host-1", "tiny", "tiny")
    assert HostMapping.objects.get().cell.name == CELL
    assert AggregateHost.objects.get().aggregate.metadata == {"availability_zone": "az-1"}
    provider = ResourceProvider.objects.get()
    assert (provider.uuid, provider.name, provider.traits) == (node().uuid, "host-1", ["COMPUTE_NODE"])
    amounts = provider.inventories.values_list("resource_class", "total", "reserved", "allocation_ratio")
    assert sorted(amounts) == [("MEMORY_MB", 8192, 512, 1.0), ("VCPU", 8, 0, 4.0)]
    assert events("host:host-1") == ["host.joined"]
    assert Service.objects.using("cell2").count() == 0


def test_an_idle_heartbeat_is_one_update_in_one_database() -> None:
    reports.record(CELL, report(12))
    before = everything()[1:]
    seen_at = service().last_seen_at
    with Captured(connections[CELL]) as cell, Captured(connections["default"]) as api:
        reports.record(CELL, report(13))
    assert [query["sql"].split()[0] for query in cell if query["sql"].split()[0] not in ("BEGIN", "COMMIT")] == [
        "UPDATE"
    ]
    assert len(api) == 0
    assert service().report_number == 13
    assert service().last_seen_at > seen_at
    assert everything()[1:] == before


def test_other_guests_are_adopted_without_examining_the_host() -> None:
    reports.record(CELL, report(12))
    instance = make_instance(power_state=PowerState.NOSTATE)
    change_number, seen_at = node().change_number, service().last_seen_at
    with Captured(connections[CELL]) as cell, Captured(connections["default"]) as api:
        reports.record(CELL, report(13, {str(instance.uuid): PowerState.RUNNING}))
    assert len(api) == 0
    assert len([query for query in cell if not query["sql"].startswith(("BEGIN", "COMMIT"))]) <= 9
    assert power_state(instance) == PowerState.RUNNING
    assert service().guests == {str(instance.uuid): PowerState.RUNNING}
    assert (service().report_number, node().running_guests, node().change_number) == (13, 1, change_number)
    assert service().last_seen_at > seen_at


def test_a_host_with_other_resources_is_examined_whatever_its_guests() -> None:
    reports.record(CELL, report(12))
    other = {**TinyDriver("host-1").report().to_json(), "hypervisor_type": "other"}
    reports.record(CELL, report(13, {str(make_instance().uuid): PowerState.RUNNING}, report=other))
    assert node().hypervisor_type == "other"
    assert node().running_guests == 1


def test_guests_of_a_host_that_was_unresponsive_are_not_all_that_is_new() -> None:
    reports.record(CELL, report(12))
    change_number = node().change_number
    Service.objects.using(CELL).update(last_seen_at=database_now(LONG_AGO_SECONDS))
    reports.record(CELL, report(13, {str(make_instance().uuid): PowerState.RUNNING}))
    assert node().change_number > change_number


def test_an_older_report_of_other_guests_changes_nothing() -> None:
    reports.record(CELL, report(13, {str(make_instance().uuid): PowerState.RUNNING}))
    before = everything()
    reports.record(CELL, report(12))
    assert everything() == before


def test_a_periodic_full_comparison_changes_nothing(clock: Clock) -> None:
    reports.record(CELL, report(1))
    before, digest = everything()[1:], service().report_digest
    clock.now += reports.FULL_LOOK_SECONDS
    for number in (2, 3):
        reports.record(CELL, report(number))
    assert everything()[1:] == before
    assert service().report_number == 3
    assert service().report_digest != digest


def test_full_comparisons_of_many_hosts_are_spread_over_time(clock: Clock) -> None:
    turns = set()
    for second in range(reports.FULL_LOOK_SECONDS):
        clock.now = float(second)
        turns.add(tuple(reports._full_look(f"host-{number}") for number in range(50)))
    assert len(turns) > reports.FULL_LOOK_SECONDS // 3


@pytest.mark.parametrize("number", [9, 10])
def test_older_and_repeated_reports_change_nothing(number: int) -> None:
    reports.record(CELL, report(10, {str(make_instance().uuid): PowerState.RUNNING}))
    before = everything()
    other = {**TinyDriver("host-1").report().to_json(), "hypervisor_type": "other"}
    reports.record(CELL, report(number, {}, report=other))
    assert everything() == before


def test_the_change_number_rises_with_what_the_scheduler_must_see_and_only_then() -> None:
    reports.record(CELL, report(1))
    first = node().change_number
    reports.record(CELL, report(2))
    reports.record(CELL, report(3, {str(uuid.uuid4()): PowerState.RUNNING}))
    assert (node().change_number, node().running_guests) == (first, 1)
    other = {**TinyDriver("host-1").report().to_json(), "traits": ["COMPUTE_NODE", "CUSTOM_FAST"]}
    reports.record(CELL, report(4, report=other))
    assert node().change_number == first + 1
    assert ResourceProvider.objects.get().traits == ["COMPUTE_NODE", "CUSTOM_FAST"]
    reports.record(CELL, report(5, report=other, is_simulated=False))
    assert node().change_number == first + 2
    assert not service().is_simulated


def test_change_numbers_order_the_changes_of_a_cell() -> None:
    reports.record(CELL, report(1))
    reports.record(CELL, report(1, host="host-2", report=TinyDriver("host-2").report().to_json()))
    numbers = dict(ComputeNode.objects.using(CELL).values_list("host", "change_number"))
    assert numbers["host-2"] > numbers["host-1"]


def test_a_host_that_comes_back_is_a_change() -> None:
    reports.record(CELL, report(1))
    first = node().change_number
    Service.objects.using(CELL).update(last_seen_at=database_now(LONG_AGO_SECONDS))
    reports.record(CELL, report(2))
    assert node().change_number == first + 1
    assert events("host:host-1") == ["host.joined", "host.updated"]
    Service.objects.using(CELL).update(is_disabled=True, disabled_reason="maintenance", is_forced_down=True)
    reports.record(CELL, report(3))
    assert (service().is_disabled, service().disabled_reason, service().is_forced_down) == (True, "maintenance", True)


def test_a_host_of_another_cell_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    reports.record("cell2", report(1, cell="cell2"))
    before = everything()
    with caplog.at_level(logging.ERROR):
        reports.record(CELL, report(2))
    assert everything() == before
    assert "host-1 belongs to cell2, not to cell1" in caplog.text


def test_two_hosts_with_one_node_name_are_named_and_the_first_stays(caplog: pytest.LogCaptureFixture) -> None:
    reports.record(CELL, report(1))
    reports.record(CELL, report(1, host="host-2"))
    assert "nothing can be placed on host host-2: There is another resource provider named host-1." in caplog.text
    assert ResourceProvider.objects.get().uuid == ComputeNode.objects.using(CELL).get(host="host-1").uuid


def test_a_host_has_a_few_nodes_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise a host could fill the scheduler's table with a new node name in each report."""

    def named(number: int, node: str) -> HostReported:
        return report(number, report={**TinyDriver("host-1").report().to_json(), "node": node})

    for number in range(reports.MOST_NODES):
        assert reports.record(CELL, named(number + 1, f"node-{number}"))
    before = everything()
    assert not reports.record(CELL, named(100, "one-more"))
    assert everything() == before
    assert "host-1 has 10 nodes already" in caplog.text.replace("host=", "")
    assert reports.record(CELL, named(101, "node-3"))


def test_the_default_zone_needs_no_aggregate() -> None:
    reports.record(CELL, report(1, availability_zone=""))
    assert service().availability_zone == "nova"
    assert Aggregate.objects.count() == 0


def test_a_power_state_is_adopted_and_reported_once() -> None:
    instance = make_instance(vm_state="error")
    guests = {str(instance.uuid): PowerState.CRASHED}
    for number in (1, 2, 3):
        reports.record(CELL, report(number, guests))
    assert power_state(instance) == PowerState.CRASHED
    assert events(f"server:{instance.uuid}") == ["instance.updated"]
    event = Event.objects.using(CELL).get(topic=f"server:{instance.uuid}")
    assert (event.project_id, event.data) == ("b" * 32, {"power_state": 6})


def test_an_instance_under_work_is_left_to_its_workflow_and_looked_at_afterwards() -> None:
    instance = make_instance(task_state=TaskState.SPAWNING, power_state=PowerState.NOSTATE)
    guests = {str(instance.uuid): PowerState.RUNNING}
    reports.record(CELL, report(1, guests))
    assert power_state(instance) == PowerState.NOSTATE
    Instance.objects.using(CELL).update(task_state=None)
    reports.record(CELL, report(2, guests))
    assert power_state(instance) == PowerState.RUNNING


def test_only_a_guest_that_is_missing_twice_counts_as_gone() -> None:
    instance = make_instance()
    reports.record(CELL, report(1, {}))
    assert power_state(instance) == PowerState.RUNNING
    reports.record(CELL, report(2, {str(instance.uuid): PowerState.RUNNING}))
    reports.record(CELL, report(3, {}))
    assert power_state(instance) == PowerState.RUNNING
    reports.record(CELL, report(4, {}))
    assert power_state(instance) == PowerState.NOSTATE
    assert events(f"server:{instance.uuid}") == ["instance.updated"]


def test_another_host_says_nothing_about_an_instance() -> None:
    instance = make_instance(host="host-2")
    for number in (1, 2):
        reports.record(CELL, report(number, {str(instance.uuid): PowerState.CRASHED}))
    assert power_state(instance) == PowerState.RUNNING
    assert events(f"server:{instance.uuid}") == []


@pytest.mark.parametrize("kind", ["deleted", "moved"])
def test_an_orphaned_guest_is_destroyed_once_after_two_reports(kind: str) -> None:
    instance = make_instance(**({"deleted_at": database_now()} if kind == "deleted" else {"host": "host-2"}))
    guests = {str(instance.uuid): PowerState.RUNNING}
    reports.record(CELL, report(1, guests))
    assert deferred() == []
    for number in (2, 3, 4):
        reports.record(CELL, report(number, guests))
    assert deferred() == [("host-1", str(instance.uuid))]
    assert events("host:host-1") == ["host.joined", "host.guest_turned_out"]
    lines = []
    for number in range(5, 18):  # it reports success without deleting: the command is repeated, ever more rarely
        OutboxMessage.objects.using(CELL).all().delete()
        reports.record(CELL, report(number, guests))
        lines += [number] * len(deferred())
    assert lines == [8, 16]
    reports.record(CELL, report(18, {}))
    assert service().unsettled == {"unmanaged": {}, "missing": {}, "odd": {}, "is_pending": False}


def test_a_guest_that_was_gone_in_between_is_given_grace_again() -> None:
    instance = make_instance(host="host-2")
    guests = {str(instance.uuid): PowerState.RUNNING}
    for number, seen in enumerate((guests, {}, guests), start=1):
        reports.record(CELL, report(number, seen))
    assert deferred() == []


@pytest.mark.parametrize("state", [RunState.WAITING, RunState.NEEDS_OPERATOR])
def test_a_guest_under_a_workflow_is_left_alone_until_that_has_ended(state: str, clock: Clock) -> None:
    instance = make_instance(host="host-2")
    run = WorkflowRun.objects.using(CELL).create(
        flow="build_in_cell",
        action="create",
        state=state,
        queue="conductor.cell1",
        instance_uuid=instance.uuid,
        project_id="b" * 32,
        user_id="a" * 32,
        request_id="req-1",
        wake_at=database_now(),
        created_at=database_now(),
    )
    guests = {str(instance.uuid): PowerState.RUNNING}
    for number in range(1, 30):
        reports.record(CELL, report(number, guests))
    assert deferred() == []
    WorkflowRun.objects.using(CELL).filter(pk=run.pk).update(state=RunState.DONE)
    clock.now += reports.FULL_LOOK_SECONDS
    for number in (30, 31):
        reports.record(CELL, report(number, guests))
    assert deferred() == [("host-1", str(instance.uuid))]


def test_an_unmanaged_guest_is_reported_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    unmanaged = str(uuid.uuid4())
    for number in (1, 2, 3):
        reports.record(CELL, report(number, {unmanaged: PowerState.RUNNING, "no-uuid": 1}))
    assert deferred() == []
    assert f"guest without an instance: host=host-1 guest={unmanaged}" in caplog.text
    assert "no-uuid" not in caplog.text


def test_a_report_that_was_cut_off_is_taken_up_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    class Died(BaseException):
        pass

    def die(*_: Any) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(reports.inventories, "report", die)
        with pytest.raises(Died):
            reports.record(CELL, report(1))
    assert ResourceProvider.objects.count() == 0
    reports.record(CELL, report(2))
    assert ResourceProvider.objects.get().uuid == node().uuid
