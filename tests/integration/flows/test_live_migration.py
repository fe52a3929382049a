"""Live migration: the guest is always somewhere, once: at home in any failure before the switch, else where it went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conductor.cell_db.models import ComputeNode, InstanceFault, Migration, Service
from conductor.core.compute_driver import HAS_LEFT
from conductor.core.errors import Conflict, Invalid, NotFound, NotSupported, NovellaError
from conductor.core.states import RunState, TaskState, VmState
from conductor.journal.models import AuditRecord, OutboxMessage, ResourceLock, WorkflowRun
from conductor.network.models import Port
from conductor.services.server_migrations import live_migrations, migrations
from conductor.services.servers import groups, instances
from conductor.workflows.flow import RemoteStep, Step
from conductor.workflows.flows.live_migration import LIVE_MIGRATE_INSTANCE
from tests.fixtures.live_migrations import run_of, say_it_moves, until_it_moves
from tests.fleet import silence
from tests.integration.flows.moving import (
    CELL,
    COMING,
    RUNNING,
    Hosts,
    assert_at_rest,
    held_by,
    instance_of,
    migration_of,
    run_to_the_end,
    step_on,
)

EVER = 10_000
BEFORE_THE_SWITCH = ("LookAtSource", "PickDestination", "PreparePorts", "PrepareAtDestination", "MoveLive")


def part_of(step: Step) -> str:
    return "commit" if step.is_local or isinstance(step, RemoteStep) else "execute"


def test_a_server_moves_while_it_runs(hosts: Hosts, admin: Any, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host
    live_migrations.begin(admin, uuid)
    assert instance_of(uuid).task_state == TaskState.MIGRATING
    run_to_the_end(hosts)
    after = instance_of(uuid)
    assert (after.vm_state, after.task_state) == (VmState.ACTIVE, None)
    assert after.host != home
    assert migration_of(uuid).status == "completed"
    assert hosts.has(uuid) == {after.host: RUNNING}
    assert held_by(str(migration_of(uuid).uuid)) == {}
    assert_at_rest(hosts, uuid)


def test_a_live_migration_goes_to_the_requested_host_if_it_passes_the_filters(
    hosts: Hosts, admin: Any, launch: Any
) -> None:
    uuid = launch()
    home = instance_of(uuid).host
    away = ({"sim-1", "sim-2", "sim-3"} - {home}).pop()
    Service.objects.using(CELL).filter(host=away).update(is_disabled=True)
    live_migrations.begin(admin, uuid, away)
    run_to_the_end(hosts)
    assert instance_of(uuid).host == home
    assert "No valid host" in InstanceFault.objects.using(CELL).get(instance_uuid=uuid).message
    Service.objects.using(CELL).filter(host=away).update(is_disabled=False)
    live_migrations.begin(admin, uuid, away)
    run_to_the_end(hosts)
    assert instance_of(uuid).host == away
    assert_at_rest(hosts, uuid)


@pytest.mark.parametrize("times", [1, EVER], ids=["once", "for ever"])
@pytest.mark.parametrize("step", LIVE_MIGRATE_INSTANCE.steps, ids=lambda step: step.name)
def test_each_failing_step_leaves_the_guest_on_one_host(
    step: Step, times: int, hosts: Hosts, admin: Any, launch: Any, trouble: Any
) -> None:
    uuid = launch()
    home, held = instance_of(uuid).host, held_by(uuid)
    is_forward = step.name not in BEFORE_THE_SWITCH
    if step.name == "MoveLive":  # what fails there is the source's word; see the tests below
        hosts.fails = lambda message, host: "DriverError" if message == "live_migrate" else None
    elif step.name == "MarkMoved":
        times = 0  # nothing can fail in it but the database, and then nothing of it is written
    elif step.name != "CloseDestination":
        trouble.strike(step, part_of(step), 4 if is_forward else times)
    live_migrations.begin(admin, uuid)
    run_to_the_end(hosts)
    after = instance_of(uuid)
    assert after.vm_state == VmState.ACTIVE
    if is_forward:
        assert (after.host != home, migration_of(uuid).status) == (True, "completed")
    else:
        assert (after.host, migration_of(uuid).status, held_by(uuid)) == (home, "failed", held)
        assert run_of(uuid).state == RunState.FAILED_UNDONE
    assert hosts.has(uuid) == {after.host: RUNNING}
    assert hosts.left_over(uuid) == set()
    assert_at_rest(hosts, uuid)


def test_both_hosts_may_have_the_ports_while_the_guest_moves(hosts: Hosts, admin: Any, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host
    live_migrations.begin(admin, uuid)
    until_it_moves(hosts, uuid)
    bindings = set(Port.objects.filter(device_id=uuid).values_list("binding_host", "migrating_to"))
    assert bindings == {(home, migration_of(uuid).destination_host)}
    hosts.mute.clear()
    run_to_the_end(hosts)
    assert_at_rest(hosts, uuid)


def test_a_destination_that_fails_is_followed_by_another(hosts: Hosts, admin: Any, launch: Any) -> None:
    uuid = launch()
    refused: list[str] = []

    def once(message: str, host: str) -> str | None:
        if message == "prepare_live_migration" and not refused:
            refused.append(host)
            return "DriverError"
        return None

    hosts.fails = once
    live_migrations.begin(admin, uuid)
    run_to_the_end(hosts)
    assert instance_of(uuid).host not in refused
    assert (run_of(uuid).attempt, run_of(uuid).state) == (2, RunState.DONE)
    assert_at_rest(hosts, uuid)


@pytest.mark.parametrize("has_arrived", [True, False], ids=["arrived", "not arrived"])
def test_a_source_that_stops_responding_leaves_the_result_to_the_destination(
    has_arrived: bool, hosts: Hosts, admin: Any, launch: Any
) -> None:
    uuid = launch()
    home = instance_of(uuid).host or ""
    live_migrations.begin(admin, uuid)
    until_it_moves(hosts, uuid)
    away = migration_of(uuid).destination_host or ""
    assert hosts.guests[away][uuid] == COMING
    if has_arrived:
        hosts.guests[away][uuid] = hosts.guests[home].pop(uuid)
    silence(home)
    WorkflowRun.objects.using(CELL).filter(pk=run_of(uuid).pk).update(wake_at="2020-01-01T00:00Z")
    run_to_the_end(hosts)
    after = instance_of(uuid)
    assert after.host == (away if has_arrived else home)
    assert migration_of(uuid).status == ("completed" if has_arrived else "failed")
    assert after.vm_state == VmState.ACTIVE
    assert ("cancel_live_migration", away) in hosts.commands, "nothing may arrive while it is asked"
    assert hosts.left_over(uuid) == set()
    assert_at_rest(hosts, uuid)


@pytest.mark.parametrize("has_arrived", [True, False], ids=["arrived", "not arrived"])
def test_when_the_source_fails_without_its_guest_the_destination_decides_the_outcome(
    has_arrived: bool, hosts: Hosts, admin: Any, launch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for a failed move, the guest that has arrived would be one too many, and be ended."""

    def lose(host: str, body: dict[str, Any]) -> dict[str, Any]:
        guest = hosts.guests[host].pop(body["instance_uuid"])
        hosts.guests[body["target"]["listens_at"] if has_arrived else host][body["instance_uuid"]] = guest
        return {HAS_LEFT: True}

    monkeypatch.setattr(hosts, "live_migrate", lose)
    uuid = launch()
    home = instance_of(uuid).host or ""
    live_migrations.begin(admin, uuid)
    run_to_the_end(hosts)
    after = instance_of(uuid)
    assert (after.vm_state, after.host != home) == (VmState.ACTIVE, has_arrived)
    assert migration_of(uuid).status == ("completed" if has_arrived else "failed")
    assert hosts.has(uuid) == {after.host: RUNNING}
    assert hosts.left_over(uuid) == set()
    assert_at_rest(hosts, uuid)


def test_an_abort_before_the_guest_moves_is_a_cancel(hosts: Hosts, admin: Any, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host
    live_migrations.begin(admin, uuid)
    live_migrations.abort(admin, uuid, str(migration_of(uuid).uuid))
    run_to_the_end(hosts)
    assert (instance_of(uuid).host, migration_of(uuid).status) == (home, "cancelled")
    assert run_of(uuid).state == RunState.CANCELLED
    assert_at_rest(hosts, uuid)


ORDERS: dict[str, tuple[str, Callable[[Any, str, str], str]]] = {
    "abort": ("abort_live_migration", live_migrations.abort),
    "force_complete": ("force_live_migration", live_migrations.force_complete),
    "throttle": ("steer_live_migration", lambda *to: live_migrations.steer(*to, "throttle", "40")),
}


@pytest.mark.parametrize("order", ORDERS)
def test_an_action_on_a_migration_carries_the_token_of_the_migration(
    order: str, hosts: Hosts, admin: Any, launch: Any
) -> None:
    uuid = launch()
    home = instance_of(uuid).host or ""
    live_migrations.begin(admin, uuid)
    run = until_it_moves(hosts, uuid)
    say_it_moves(run)
    command = OutboxMessage.objects.using(CELL).get(run_uuid=run.uuid)
    number = migrations.of_server(admin, uuid)[0].number
    flow, give = ORDERS[order]
    give(admin, uuid, str(number))
    records = AuditRecord.objects.using(CELL).get(action=f"live_migration.{order}")
    assert (records.run_uuid, str(records.instance_uuid), records.user_id) == (run.uuid, uuid, admin.user_id)
    step_on(hosts)
    ordered = OutboxMessage.objects.using(CELL).get(run_uuid=run_of(uuid, flow).uuid)
    assert ordered.body["body"]["fencing_token"] == command.body["body"]["fencing_token"]
    assert ordered.host == home
    if order == "throttle":
        assert (ordered.body["body"]["kind"], ordered.body["body"]["amount"]) == ("throttle", 40)
        assert (run_of(uuid, flow).action, records.details["amount"]) == ("live_migration_throttle", 40)
    hosts.mute.clear()
    if order == "abort":
        hosts.fails = lambda message, host: "MigrationAborted" if message == "live_migrate" else None
    run_to_the_end(hosts)
    assert run_of(uuid, flow).state == RunState.DONE
    if order == "abort":
        assert (instance_of(uuid).host, migration_of(uuid).status) == (home, "cancelled")
        assert run_of(uuid).state == RunState.CANCELLED, "as requested"
    else:
        assert (instance_of(uuid).host != home, migration_of(uuid).status) == (True, "completed")
    assert_at_rest(hosts, uuid)


def test_a_late_or_invalid_action_on_a_migration_changes_nothing(hosts: Hosts, admin: Any, launch: Any) -> None:
    uuid = launch()
    live_migrations.begin(admin, uuid)
    ref = str(migration_of(uuid).uuid)

    def refused(kind: type[NovellaError], words: str, order: str = "throttle", amount: object = 40) -> None:
        with pytest.raises(kind, match=words):
            live_migrations.steer(admin, uuid, ref, order, amount)

    refused(Invalid, "while it is accepted")
    run = until_it_moves(hosts, uuid)
    refused(Conflict, "is not moving yet")
    say_it_moves(run)
    for order, amount in [("throttle", 0), ("throttle", 100), ("downtime", 0), ("downtime", 10**9), ("downtime", "no")]:
        refused(Invalid, "It must be a whole number from 1 to", order, amount)
    nodes = ComputeNode.objects.using(CELL).filter(host=instance_of(uuid).host)
    (node,) = nodes
    nodes.update(report={"capabilities": {"actions": ["live_migrate"]}})
    refused(NotSupported, "of an earlier release")
    nodes.update(report=node.report)
    live_migrations.steer(admin, uuid, ref, "post-copy")
    step_on(hosts)
    say_it_moves(run, is_post_copy=1)
    refused(Conflict, "has switched")
    for order in (live_migrations.abort, live_migrations.force_complete):
        with pytest.raises(Conflict, match="has switched"):
            order(admin, uuid, ref)
    instances.delete(admin, uuid)
    assert live_migrations.stop_unwanted(CELL) == 0, "no impossible command is sent"
    flows = WorkflowRun.objects.using(CELL).filter(instance_uuid=uuid).values_list("flow", flat=True)
    assert sorted(flows)[-1] == "steer_live_migration"
    assert "abort_live_migration" not in flows
    hosts.mute.clear()
    run_to_the_end(hosts)
    assert instance_of(uuid).vm_state == VmState.DELETED


def test_a_delete_stops_a_move_that_does_not_end(hosts: Hosts, ana: Any, admin: Any, launch: Any) -> None:
    uuid = launch()
    live_migrations.begin(admin, uuid)
    until_it_moves(hosts, uuid)
    assert live_migrations.stop_unwanted(CELL) == 0
    instances.delete(ana, uuid)
    assert live_migrations.stop_unwanted(CELL) == 1
    assert live_migrations.stop_unwanted(CELL) == 0, "once is enough"
    step_on(hosts)
    assert OutboxMessage.objects.using(CELL).filter(run_uuid=run_of(uuid, "abort_live_migration").uuid).exists()
    hosts.mute.clear()
    hosts.fails = lambda message, host: "MigrationAborted" if message == "live_migrate" else None
    run_to_the_end(hosts)
    assert instance_of(uuid).vm_state == VmState.DELETED
    assert (hosts.has(uuid), hosts.left_over(uuid), held_by(uuid)) == ({}, set(), {})
    assert migration_of(uuid).status == "cancelled"


def test_figures_of_a_live_migration_are_shown(hosts: Hosts, admin: Any, launch: Any) -> None:
    uuid = launch()
    live_migrations.begin(admin, uuid)
    say_it_moves(until_it_moves(hosts, uuid), odd=1)
    (view,) = migrations.of_server(admin, uuid)
    assert (view.status, view.amounts["memory_total"], view.amounts["memory_remaining"]) == ("running", 512, 256)
    hosts.mute.clear()
    run_to_the_end(hosts)
    assert migrations.of_server(admin, uuid) == []


def test_members_of_an_anti_affinity_group_are_not_migrated_to_one_host(
    hosts: Hosts, ana: Any, admin: Any, launch: Any
) -> None:
    group = groups.create(ana, "apart", "anti-affinity", {})
    first, second = (launch(name, scheduler_hints={"group": [group.uuid]}) for name in ("web-1", "web-2"))
    homes = {instance_of(first).host, instance_of(second).host}
    assert len(homes) == 2
    for uuid in (first, second):
        live_migrations.begin(admin, uuid)
    run_to_the_end(hosts)
    ends = [instance_of(uuid).host for uuid in (first, second)]
    assert len(set(ends)) == 2
    assert sorted(migration_of(uuid).status for uuid in (first, second)) == ["completed", "failed"]
    for uuid in (first, second):
        assert_at_rest(hosts, uuid)


def test_the_destination_claims_its_resources_and_reports_the_guest(hosts: Hosts, admin: Any, launch: Any) -> None:
    uuid = launch()
    live_migrations.begin(admin, uuid)
    run = until_it_moves(hosts, uuid)
    held = set(ResourceLock.objects.using(CELL).filter(run=run).values_list("resource", flat=True))
    assert {f"instance:{uuid}", f"host:{migration_of(uuid).destination_host}#{run.uuid}"} <= held
    hosts.mute.clear()
    run_to_the_end(hosts)
    assert_at_rest(hosts, uuid)


def test_invalid_moves_are_refused_and_nothing_changes(hosts: Hosts, people: Any, admin: Any, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host or ""
    refusals: list[tuple[type[Exception], str, Any]] = [
        (Invalid, "already", lambda: live_migrations.begin(admin, uuid, home)),
        (Invalid, "could not be found", lambda: live_migrations.begin(admin, uuid, "nowhere")),
        (NotFound, "could not be found", lambda: live_migrations.begin(people.chi.context(), uuid)),
        (NotFound, "could not be found", lambda: live_migrations.abort(admin, uuid, "17")),
    ]
    for kind, words, ask in refusals:
        with pytest.raises(kind, match=words):
            ask()
    rows = type(instance_of(uuid)).objects.using(CELL).filter(uuid=uuid)
    rows.update(vm_state=VmState.STOPPED)
    with pytest.raises(Conflict, match="vm_state stopped"):
        live_migrations.begin(admin, uuid)
    rows.update(vm_state=VmState.ACTIVE)
    silence(home)
    with pytest.raises(Conflict, match="does not answer"):
        live_migrations.begin(admin, uuid)
    assert not Migration.objects.using(CELL).exists()
    assert instance_of(uuid).task_state is None
