"""Launches in a cloud whose hosts have not reported yet wait for the first report, and no longer than the setting."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.cell_db.models import InstanceFault
from conductor.core.compute_driver import NodeReport
from conductor.core.states import LIVE_RUN_STATES, RunState, WaitCause
from conductor.db.transactions import database_now
from conductor.image import seed as image_seed
from conductor.journal.models import StepRecord, WorkflowRun
from conductor.services.fleet import reports
from conductor.workflows.engine import executor
from conductor.workflows.flows import build
from tests.compute_rows import seed_cloud
from tests.fixtures.builds import instance_of, launch_many
from tests.fixtures.host_reports import CELL, _cells, clock, report
from tests.fleet import SIMULATED, inventory_of
from tests.integration.page_clients import signed_in

__all__ = ("_cells", "clock")

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture
def ana(people: Any, settings: Any) -> Any:
    settings.NOVELLA_FIRST_REPORT_SECONDS = 300.0
    build.has_hosts.clear()
    image_seed.seed(people.admin.context().project_id, None)
    seed_cloud(people)
    return people.ana.context()


def roomy_report() -> NodeReport:
    return NodeReport(
        node="host-1",
        hypervisor_type="fake",
        hypervisor_version=1000,
        inventory=inventory_of((8, 8192, 100)),
        supported_instances=SIMULATED,
    )


def launches() -> list[WorkflowRun]:
    return list(WorkflowRun.objects.filter(flow="build_instances").order_by("pk"))


def start_all() -> None:
    """Run what is due, as notified conductors do."""
    for run in launches():
        executor.run("default", run.uuid)


def test_a_launch_waits_for_the_first_report_and_its_page_says_so(ana: Any) -> None:
    uuids = [*launch_many(ana, 1), *launch_many(ana, 1)]
    start_all()
    for run in launches():
        assert run.state == RunState.WAITING
        assert run.waits_for["cause"] == WaitCause.FIRST_REPORT
    page = signed_in("ana").get(f"/workflows/{launches()[0].uuid}/why").content.decode()
    assert "the first report of a host" in page
    assert "The cloud has just started." in page
    start_all()  # nothing is due
    assert {run.state for run in launches()} == {RunState.WAITING}
    reports.record(CELL, report(1, report=roomy_report().to_json()))
    start_all()  # the report made them due
    assert {run.state for run in launches()} == {RunState.DONE}
    assert [instance_of(uuid).host for uuid in uuids] == [None, None]  # their own workflows claim it
    builds = WorkflowRun.objects.using("cell1").filter(flow="build_in_cell")
    assert {run.inputs["selections"][0]["host"] for run in builds} == {"host-1"}
    assert build.has_hosts.is_set()


def test_a_launch_that_has_waited_long_enough_fails_and_a_younger_one_goes_on_waiting(ana: Any) -> None:
    (late,), _ = launch_many(ana, 1), launch_many(ana, 1)
    start_all()
    first, second = launches()
    StepRecord.objects.filter(run=first).update(started_at=database_now(-400))
    WorkflowRun.objects.update(wake_at=database_now())
    executor.run("default", second.uuid)  # both are due, and are taken up as a set
    start_all()
    assert [run.state in LIVE_RUN_STATES for run in launches()] == [False, True]
    fault = InstanceFault.objects.using("cell0").get(instance_uuid=late)
    assert "There are no hosts." in fault.message


def test_without_the_setting_it_fails_at_once(ana: Any, settings: Any) -> None:
    settings.NOVELLA_FIRST_REPORT_SECONDS = 0.0
    (uuid,) = launch_many(ana, 1)
    start_all()
    assert "There are no hosts." in InstanceFault.objects.using("cell0").get(instance_uuid=uuid).message
