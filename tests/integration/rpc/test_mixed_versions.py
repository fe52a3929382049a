"""Mixed releases: commands for a host that was not upgraded, and runs of unknown flows."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from conductor.cell_db.models import Service
from conductor.image.models import Image
from conductor.journal.models import OutboxMessage, StepRecord, WorkflowRun
from conductor.rpc import backports, broker, outbox
from conductor.rpc.messages import StepAnswered
from conductor.rpc.versions import SERVICE_VERSION
from conductor.services.servers import actions, instances
from conductor.services.servers.types import InstanceCreate
from conductor.workflows import catalog
from conductor.workflows.engine import executor
from conductor.workflows.flows.build import BUILD_IN_CELL
from tests.integration.flows.conftest import ana, hosts, launch
from tests.integration.flows.moving import CELL, Hosts, instance_of, run_to_the_end, step_on

__all__ = ["ana", "hosts", "launch"]
Sent = list[dict[str, Any]]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """The messages to hosts, as they are sent."""
    bodies: Sent = []
    monkeypatch.setattr(broker, "send_to_compute", lambda queue, body: bodies.append(dict(body)))
    return bodies


def build_on_a_mute_host(hosts: Hosts, ana: Any) -> None:
    """Build up to a host that gets the command and never answers."""
    hosts.mute = {"sim-1", "sim-2", "sim-3"}
    image = Image.objects.get(name="simulated-linux")
    instances.create(ana, InstanceCreate(name="web-1", flavor_ref="1", image_ref=str(image.uuid)))
    for _ in range(20):
        step_on(hosts)
        if OutboxMessage.objects.using(CELL).exists():
            return
    raise AssertionError("it does not come to its host")


def upgrade(version: int, *names: str) -> None:
    rows = Service.objects.using(CELL)
    (rows.filter(host__in=names) if names else rows).update(version=version)
    backports.forget()


def test_hosts_get_messages_that_the_oldest_understands(hosts: Hosts, launch: Any, sent: Sent) -> None:
    upgrade(1, "sim-3")
    launch()
    spawn = next(body for body in sent if body["message"] == "spawn_instance")
    assert spawn["version"] == "1.0"
    assert "is_running" not in spawn["body"]


def test_after_the_upgrade_hosts_get_all_fields(hosts: Hosts, launch: Any, sent: Sent) -> None:
    launch()
    spawn = next(body for body in sent if body["message"] == "spawn_instance")
    assert (spawn["version"], spawn["body"]["is_running"]) == ("1.5", True)


def test_a_host_that_was_upgraded_before_others_can_do_what_is_new(hosts: Hosts, launch: Any, ana: Any) -> None:
    uuid = launch()
    upgrade(1, *({"sim-1", "sim-2", "sim-3"} - {instance_of(uuid).host}))
    actions.begin(ana, uuid, "stop")
    run_to_the_end(hosts)
    assert instance_of(uuid).vm_state == "stopped"


def test_a_command_unknown_to_a_host_fails_and_advises_an_upgrade(hosts: Hosts, launch: Any, ana: Any) -> None:
    uuid = launch()
    upgrade(1)
    run_uuid = actions.begin(ana, uuid, "stop")
    run_to_the_end(hosts)
    run = WorkflowRun.objects.using(CELL).get(uuid=run_uuid)
    assert run.state.startswith("failed")
    assert run.error["class"] == "HostTooOld"
    commands = f"service version 1 of {SERVICE_VERSION}, which does not know power_off. Upgrade it"
    assert commands in run.error["message"]
    assert (instance_of(uuid).vm_state, instance_of(uuid).task_state) == ("active", None)
    assert not OutboxMessage.objects.using(CELL).exists()
    assert "power_off" not in [message for message, _ in hosts.commands]


def test_a_command_that_is_sent_again_is_rendered_again(hosts: Hosts, ana: Any, sent: Sent) -> None:
    upgrade(1)
    build_on_a_mute_host(hosts, ana)
    kept = OutboxMessage.objects.using(CELL).get()
    assert kept.body["version"] == "1.5"
    upgrade(SERVICE_VERSION)
    outbox.send_all_again(CELL)
    outbox.resend_due(CELL)
    assert [body["version"] for body in sent if body["message"] == "spawn_instance"][-2:] == ["1.0", "1.5"]


# -- runs of another release


def begun_elsewhere(hosts: Hosts, ana: Any) -> WorkflowRun:
    """Return a build that a newer release began, which has a flow that is not here, and that waits for its host."""
    build_on_a_mute_host(hosts, ana)
    runs = WorkflowRun.objects.using(CELL)
    runs.update(flow_version=BUILD_IN_CELL.version + 1)
    return runs.get()


def test_a_run_of_a_flow_that_is_not_here_is_left_and_its_answer_kept(hosts: Hosts, ana: Any) -> None:
    run = begun_elsewhere(hosts, ana)
    before = {name: getattr(run, name) for name in ("state", "owner", "fencing_token", "position")}
    executor.run(CELL, run.uuid)
    record = StepRecord.objects.using(CELL).get(run=run, state="waiting")
    answer = StepAnswered(
        step_key=record.step_key, run_uuid=str(run.uuid), fencing_token=run.fencing_token, host=record.host, ok=True,
        result={},
    )  # fmt: skip
    executor.answer(CELL, answer)
    run.refresh_from_db()
    assert {name: getattr(run, name) for name in before} == before
    assert StepRecord.objects.using(CELL).get(pk=record.pk).answer == {"ok": True, "result": {}, "error": None}
    WorkflowRun.objects.using(CELL).update(flow_version=BUILD_IN_CELL.version)  # as if that release were here
    executor.run(CELL, run.uuid)
    assert instance_of(str(run.instance_uuid)).vm_state == "active"


def test_an_earlier_flow_stays_beside_the_new_one() -> None:
    assert {(flow.name, flow.version) for flow in catalog.PREVIOUS}.isdisjoint(
        (flow.name, flow.version) for flow in catalog.FLOWS
    )
    newest = {flow.name: flow.version for flow in catalog.FLOWS}
    assert all(flow.version < newest[flow.name] for flow in catalog.PREVIOUS)


# -- manage.py upgrade_check


def check() -> tuple[int, dict[str, Any]]:
    out = StringIO()
    try:
        call_command("upgrade_check", "--json", stdout=out)
    except SystemExit as ended:
        return int(str(ended.code)), json.loads(out.getvalue())
    return 0, json.loads(out.getvalue())


def test_upgrade_check_lists_old_hosts_and_runs_that_cannot_continue(hosts: Hosts, ana: Any) -> None:
    assert check()[0] == 0
    upgrade(1, "sim-2")
    code, commands = check()
    assert code == 0
    assert commands["older"] == [{"cell": CELL, "binary": "nova-compute", "host": "sim-2", "version": 1}]
    run = begun_elsewhere(hosts, ana)
    code, commands = check()
    assert code == 1
    assert [(row["flow"], row["version"], row["is_known"]) for row in commands["flows"]] == [
        ("build_in_cell", run.flow_version, False)
    ]
