"""When the reconciler acts, and when it does not."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F

from conductor.actors import periodic
from conductor.api_db.models import Finding
from conductor.cell_db.models import Instance, Service
from conductor.cells import scatter_gather
from conductor.core.compute_driver import NodeReport
from conductor.core.states import RunState
from conductor.db.transactions import database_now
from conductor.journal import periodic_leases
from conductor.journal.models import PeriodicLease, WorkflowRun
from conductor.placement.models import ProviderInventory
from conductor.rpc.messages import HostReported
from conductor.rpc.versions import SERVICE_VERSION
from conductor.services.fleet import reports
from conductor.services.operations.reconciliation import cell_facts, facts, reconciler
from conductor.services.operations.reconciliation.reconciler import RepairOutcome
from conductor.services.server_migrations import resizes
from conductor.services.servers import actions, instances
from tests import factories
from tests.counting import counted
from tests.integration.flows.moving import CELL, Hosts, instance_of, run_to_the_end


def found(**options: Any) -> list[str]:
    return [one.kind.name for one in reconciler.reconcile(**options).judged]


def miscount() -> None:
    ProviderInventory.objects.filter(resource_class="VCPU", provider__name="sim-1").update(used=F("used") + 1)


def test_nothing_is_found_in_a_busy_cloud_at_any_moment(
    hosts: Hosts, launch: Any, ana: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each answer of a host, that is with workflows parked in the middle, the pass looks and finds nothing."""
    stopping, going = launch("web-1"), launch("web-2")
    answer, moments = hosts.answer, []

    def look_and_answer(alias: str, command: Any) -> bool:
        moments.append(command.body["message"])
        assert found(grace_seconds=0) == []
        return answer(alias, command)

    monkeypatch.setattr(hosts, "answer", look_and_answer)
    actions.begin(ana, stopping, "stop")
    instances.delete(ana, going)
    resizing = launch("web-3")
    resizes.resize(ana, resizing, "2")
    assert found(grace_seconds=0) == []
    run_to_the_end(hosts)
    assert instance_of(resizing).vm_state == "resized"
    assert found(grace_seconds=0) == []
    resizes.confirm(ana, resizing)
    run_to_the_end(hosts)
    assert set(moments) >= {"power_off", "destroy_instance", "spawn_instance", "migrate_out", "migrate_in"}
    assert found(grace_seconds=0) == []
    assert not Finding.objects.exists()


def test_locked_resources_are_not_repaired(launch: Any, ana: Any) -> None:
    uuid = launch()
    Instance.objects.using(CELL).filter(uuid=uuid).update(task_state="powering-off")
    run = factories.run(ana, CELL, state=RunState.WAITING, owner=None, wake_at=factories.ago(-60))
    factories.lock(run, f"instance:{uuid}")
    assert found(grace_seconds=0) == []
    assert instance_of(uuid).task_state == "powering-off"
    WorkflowRun.objects.using(CELL).filter(pk=run.pk).update(state=RunState.NEEDS_OPERATOR)
    assert found(grace_seconds=0) == []
    WorkflowRun.objects.using(CELL).filter(pk=run.pk).update(state=RunState.DONE, finished_at=database_now())
    assert set(found(grace_seconds=0)) == {"state_without_workflow", "lock_of_ended_workflow"}
    assert instance_of(uuid).task_state is None


def test_resources_of_workflows_that_just_ended_are_not_repaired(launch: Any, settings: Any) -> None:
    """Earlier reports and earlier reads do not include it yet."""
    uuid = launch()
    host = instance_of(uuid).host
    Service.objects.using(CELL).filter(host=host).update(guests={})
    settings.NOVELLA_HEARTBEAT_SECONDS = 5.0
    assert found(grace_seconds=0) == []
    for alias in ("default", CELL):
        WorkflowRun.objects.using(alias).update(finished_at=factories.ago(16))
    assert found(grace_seconds=0) == ["guest_missing"]


def test_a_repair_waits_for_the_grace_period(hosts: Hosts) -> None:
    miscount()
    (one,) = reconciler.reconcile().judged
    assert one.outcome == RepairOutcome.WAITING
    (one,) = reconciler.reconcile().judged
    assert one.outcome == RepairOutcome.WAITING
    row = Finding.objects.get()
    assert (row.times_seen, row.repaired_at) == (2, None)
    Finding.objects.update(first_seen_at=factories.ago(one.kind.grace_seconds + 1))
    (one,) = reconciler.reconcile().judged
    assert one.outcome == RepairOutcome.REPAIRED
    assert reconciler.reconcile().judged == []


def test_a_finding_that_disappears_is_closed_and_may_open_again(hosts: Hosts) -> None:
    miscount()
    reconciler.reconcile()
    ProviderInventory.objects.update(used=0)
    assert reconciler.reconcile().judged == []
    assert Finding.objects.get().gone_at is not None
    miscount()
    reconciler.reconcile()
    row = Finding.objects.get()
    assert (row.gone_at, row.times_seen) == (None, 1)


def test_a_difference_that_changes_between_two_checks_is_not_repaired(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    miscount()
    load, looks = facts.load, []

    def loaded(*cells: Any) -> Any:
        looks.append(load(*cells))
        ProviderInventory.objects.update(used=0)
        return looks[-1]

    monkeypatch.setattr(facts, "load", loaded)
    assert reconciler.reconcile(grace_seconds=0).judged == []
    assert len(looks) == 2
    assert Finding.objects.get().repaired_at is None


def test_an_unresponsive_cell_has_no_findings(launch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    launch()
    load = cell_facts.load

    def down(alias: str) -> Any:
        if alias == CELL:
            raise scatter_gather.CellUnavailable("away")
        return load(alias)

    monkeypatch.setattr(cell_facts, "load", down)
    report = reconciler.reconcile(grace_seconds=0)
    assert report.judged == []
    assert set(report.down) == {CELL}


def test_the_number_of_queries_does_not_grow(launch: Any, ana: Any) -> None:
    launch("web-1")

    def queries() -> dict[str, int]:
        seen = {}
        for alias in ("default", CELL):
            with counted(alias) as count:
                reconciler.reconcile(is_dry_run=True)
            seen[alias] = len(count.statements)
        return seen

    few = queries()
    for number in range(2, 5):
        launch(f"web-{number}")
    assert queries() == few


def test_one_process_does_it_for_all_and_not_too_often(hosts: Hosts, settings: Any) -> None:
    settings.NOVELLA_RECONCILE_SECONDS = 60.0
    miscount()
    with periodic_leases.hold("default", "reconcile", "other", every_seconds=60) as lease:
        assert lease is not None
        periodic.run_periodic_work((), "mine")
        assert not Finding.objects.exists()
        lease.is_done = False
    periodic.run_periodic_work((), "mine")
    assert Finding.objects.get().times_seen == 1
    periodic.run_periodic_work((), "third")
    assert Finding.objects.get().times_seen == 1
    PeriodicLease.objects.update(done_at=factories.ago(61))
    periodic.run_periodic_work((), "third")
    assert Finding.objects.get().times_seen == 2
    settings.NOVELLA_RECONCILE_SECONDS = 0.0
    PeriodicLease.objects.update(done_at=factories.ago(61))
    periodic.run_periodic_work((), "third")
    assert Finding.objects.get().times_seen == 2


def test_a_failed_pass_does_not_count(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "load", lambda cells: 1 / 0)
    periodic.run_periodic_work((), "mine")  # logged, not raised
    monkeypatch.undo()
    miscount()
    periodic.run_periodic_work((), "other")
    assert Finding.objects.get().times_seen == 1


def run_command(*words: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("reconcile", *words, stdout=out)
    except SystemExit as ended:
        return int(str(ended.code)), out.getvalue()
    return 0, out.getvalue()


def test_the_exit_code_of_the_command_shows_open_findings(hosts: Hosts) -> None:
    assert run_command() == (0, "Everything agrees.\n")
    miscount()
    code, text = run_command("--dry-run", "--grace", "0")
    assert (code, text.partition(":")[0]) == (1, "repairable")
    assert not Finding.objects.exists()
    code, text = run_command("--json")
    assert (code, json.loads(text)["findings"][0]["outcome"]) == (1, "waiting")
    code, text = run_command("--json", "--grace", "0")
    assert (code, json.loads(text)["findings"][0]["outcome"]) == (0, "repaired")
    assert run_command("--cell", CELL) == (0, "Everything agrees.\n")


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--cell", "moon"), "there is no cell moon"),
        (("--grace", "-1"), "--grace: -1"),
        (("--grace", "nan"), "--grace"),
    ],
)
def test_the_command_refuses_invalid_arguments(hosts: Hosts, words: tuple[str, ...], fault: str) -> None:
    with pytest.raises(CommandError, match=fault):
        call_command("reconcile", *words)


def test_operators_read_findings_over_http(api_client: Any, hosts: Hosts) -> None:
    miscount()
    reconciler.reconcile()
    body = api_client("admin").get("/api/findings").json()
    (one,) = body["findings"]
    assert (one["kind"], one["state"], one["may_be_repaired"]) == ("usage_miscounted", "open", True)
    assert body["open"] == {"usage_miscounted": 1}
    reconciler.reconcile(grace_seconds=0)
    admin = api_client("admin")
    assert admin.get("/api/findings").json() == {"findings": [], "open": {}}
    assert [row["state"] for row in admin.get("/api/findings?state=repaired").json()["findings"]] == ["repaired"]
    for wrong in ("state=odd", "kind=odd", "severity=odd", "instance_uuid=odd", "odd=1", "marker=odd"):
        assert admin.get(f"/api/findings?{wrong}").status_code == 400, wrong
    assert api_client("ana").get("/api/findings").status_code == 403
    assert api_client(None).get("/api/findings").status_code == 401


def test_a_report_says_which_guests_a_host_has(hosts: Hosts) -> None:
    message = HostReported(
        host="sim-1", cell=CELL, driver="fake", is_simulated=True, service_version=SERVICE_VERSION, report_number=7,
        availability_zone="", guests={"5f1c0a6e-0000-4000-8000-000000000001": 1},
        report=NodeReport(node="sim-1", hypervisor_type="fake", hypervisor_version=1, inventory={}).to_json(),
    )  # fmt: skip
    reports.record(CELL, message)
    row = Service.objects.using(CELL).get(host="sim-1")
    assert row.guests == {"5f1c0a6e-0000-4000-8000-000000000001": 1}
    assert found(grace_seconds=0) == ["unmanaged_guest"]
    run_to_the_end(hosts)
