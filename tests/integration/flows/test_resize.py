"""Resize, cold migration, confirm and revert, with each step failing in turn."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import InstanceFault, Service
from conductor.core.errors import Conflict, Invalid, NotFound, QuotaExceeded
from conductor.core.states import RunState, TaskState, VmState
from conductor.db.transactions import database_now
from conductor.journal.models import WorkflowRun
from conductor.placement.models import ProviderInventory
from conductor.services.quotas import quotas
from conductor.services.server_migrations import resizes
from conductor.services.servers import flavors
from conductor.workflows.flow import RemoteStep, Step
from conductor.workflows.flows.resize import CONFIRM_RESIZE, RESIZE_INSTANCE, REVERT_RESIZE
from tests.fleet import silence
from tests.integration.flows.moving import (
    CELL,
    OFF,
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


def part_of(step: Step) -> str:
    return "commit" if step.is_local or isinstance(step, RemoteStep) else "execute"


def run_of(uuid: str, flow: str) -> WorkflowRun:
    run = WorkflowRun.objects.using(CELL).filter(instance_uuid=uuid, flow=flow).order_by("-pk").first()
    assert run is not None
    return run


def test_a_resize_ends_in_its_new_size_and_holds_both_ends(hosts: Hosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    before = instance_of(uuid)
    held = held_by(uuid)
    resizes.resize(ana, uuid, "2")
    assert instance_of(uuid).task_state == TaskState.RESIZE_PREP
    run_to_the_end(hosts)
    after, migration = instance_of(uuid), migration_of(uuid)
    assert (after.vm_state, after.flavor["flavor_id"]) == (VmState.RESIZED, "2")
    assert (migration.status, migration.source_host) == ("finished", before.host)
    assert migration.destination_host == after.host
    assert_at_rest(hosts, uuid)
    if after.host != before.host:
        assert held_by(str(migration.uuid)) == held
        assert hosts.left_over(uuid) == {before.host}


@pytest.mark.parametrize("end", ["confirm", "revert"])
def test_a_resize_is_confirmed_or_reverted(end: str, hosts: Hosts, ana: Any, admin: Any, launch: Any) -> None:
    uuid = launch()
    before = instance_of(uuid)
    held = held_by(uuid)
    resizes.migrate(admin, uuid)
    run_to_the_end(hosts)
    assert instance_of(uuid).host != before.host
    getattr(resizes, end)(ana, uuid)
    run_to_the_end(hosts)
    after = instance_of(uuid)
    assert after.vm_state == VmState.ACTIVE
    assert (after.host == before.host) == (end == "revert")
    assert migration_of(uuid).status == {"confirm": "confirmed", "revert": "reverted"}[end]
    assert hosts.has(uuid) == {after.host: RUNNING}
    assert hosts.left_over(uuid) == set()
    assert held_by(str(migration_of(uuid).uuid)) == {}
    assert (held_by(uuid) == held) == (end == "revert")
    assert_at_rest(hosts, uuid)


def test_a_stopped_server_comes_out_stopped(hosts: Hosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    rows = type(instance_of(uuid)).objects.using(CELL).filter(uuid=uuid)
    rows.update(vm_state=VmState.STOPPED, power_state=4)
    host = instance_of(uuid).host or ""
    hosts.guests[host][uuid] = OFF
    resizes.resize(ana, uuid, "2")
    run_to_the_end(hosts)
    assert list(hosts.has(uuid).values()) == [OFF]
    resizes.confirm(ana, uuid)
    run_to_the_end(hosts)
    assert instance_of(uuid).vm_state == VmState.STOPPED
    assert_at_rest(hosts, uuid)


@pytest.mark.parametrize("times", [1, EVER], ids=["once", "for ever"])
@pytest.mark.parametrize("step", RESIZE_INSTANCE.steps, ids=lambda step: step.name)
def test_a_step_of_a_resize_fails_and_the_server_is_as_it_was(
    step: Step, times: int, hosts: Hosts, ana: Any, launch: Any, trouble: Any
) -> None:
    uuid = launch()
    before, held = instance_of(uuid), held_by(uuid)
    trouble.strike(step, part_of(step), times)
    resizes.resize(ana, uuid, "2")
    run_to_the_end(hosts)
    after = instance_of(uuid)
    assert (after.vm_state, after.host, after.flavor) == (VmState.ACTIVE, before.host, before.flavor)
    assert held_by(uuid) == held
    assert migration_of(uuid).status == "error"
    assert InstanceFault.objects.using(CELL).filter(instance_uuid=uuid).latest("pk").message == "RuntimeError"
    assert hosts.has(uuid) == {before.host: RUNNING}
    assert hosts.left_over(uuid) == set()
    assert run_of(uuid, "resize_instance").state == RunState.FAILED_UNDONE
    assert_at_rest(hosts, uuid)


@pytest.mark.parametrize("message", ["migrate_out", "migrate_in"])
def test_a_host_that_fails_is_followed_by_another(message: str, hosts: Hosts, admin: Any, launch: Any) -> None:
    uuid = launch()
    before = instance_of(uuid)
    failed: list[str] = []

    def once(sentence: str, host: str) -> str | None:
        if sentence == message and not failed:
            failed.append(host)
            return "DriverError"
        return None

    hosts.fails = once
    resizes.migrate(admin, uuid)
    run_to_the_end(hosts)
    after, run = instance_of(uuid), run_of(uuid, "resize_instance")
    assert (after.vm_state, run.state, run.attempt) == (VmState.RESIZED, RunState.DONE, 2)
    assert after.host == ({"sim-1", "sim-2", "sim-3"} - {before.host, run.variables["tried_hosts"][0]}).pop()
    assert_at_rest(hosts, uuid)


@pytest.mark.parametrize("step", [*CONFIRM_RESIZE.steps], ids=lambda step: step.name)
def test_a_failing_confirm_is_repeated_until_it_succeeds(
    step: Step, hosts: Hosts, ana: Any, admin: Any, launch: Any, trouble: Any
) -> None:
    uuid = launch()
    resizes.migrate(admin, uuid)
    run_to_the_end(hosts)
    if not step.is_local:
        trouble.strike(step, part_of(step), times=4)
    resizes.confirm(ana, uuid)
    run_to_the_end(hosts)
    assert (instance_of(uuid).vm_state, migration_of(uuid).status) == (VmState.ACTIVE, "confirmed")
    assert_at_rest(hosts, uuid)


@pytest.mark.parametrize("times", [1, 4], ids=["once", "again and again"])
@pytest.mark.parametrize("step", REVERT_RESIZE.steps[:-1], ids=lambda step: step.name)
def test_a_failed_revert_keeps_the_new_size_or_is_repeated(
    step: Step, times: int, hosts: Hosts, admin: Any, launch: Any, trouble: Any
) -> None:
    uuid = launch()
    home = instance_of(uuid).host
    resizes.migrate(admin, uuid)
    run_to_the_end(hosts)
    away = instance_of(uuid).host
    trouble.strike(step, part_of(step), times)
    resizes.revert(admin, uuid)
    run_to_the_end(hosts)
    after = instance_of(uuid)
    if step.name in ("StopAtDestination", "MovePortsBack"):
        assert (after.vm_state, after.host, migration_of(uuid).status) == (VmState.RESIZED, away, "finished")
    else:
        assert (after.vm_state, after.host, migration_of(uuid).status) == (VmState.ACTIVE, home, "reverted")
    assert hosts.has(uuid) == {after.host: RUNNING}
    assert_at_rest(hosts, uuid)


def test_a_revert_whose_source_is_off_gives_up_and_can_be_requested_again(
    hosts: Hosts, admin: Any, launch: Any
) -> None:
    """Silence alone is no reason: the guest may run there. Once it is known to be off, nothing waits for it."""
    uuid = launch()
    home = instance_of(uuid).host or ""
    resizes.migrate(admin, uuid)
    run_to_the_end(hosts)
    away, held = instance_of(uuid).host or "", held_by(uuid)
    services = Service.objects.using(CELL).filter(host=home)
    hosts.mute.add(home)
    resizes.revert(admin, uuid)
    silence(home)
    for _ in range(8):
        assert step_on(hosts), "it waits for a host that may have done it"
    assert hosts.has(uuid) == {away: OFF}
    hosts.guests[home][uuid] = RUNNING  # it did the work, and died before it reported
    hosts.kept[home].clear()
    services.update(is_forced_down=True)
    WorkflowRun.objects.using(CELL).filter(flow="revert_resize").update(wake_at=database_now())
    run_to_the_end(hosts)
    after = instance_of(uuid)
    assert (after.vm_state, after.host, migration_of(uuid).status) == (VmState.RESIZED, away, "finished")
    assert (after.task_state, held_by(uuid), hosts.guests[away][uuid]) == (None, held, RUNNING)
    hosts.mute.clear()
    services.update(is_forced_down=False, last_seen_at=database_now())
    step_on(hosts)
    assert hosts.has(uuid) == {away: RUNNING}, "what the source did is taken back before anything else"
    resizes.revert(admin, uuid)
    run_to_the_end(hosts)
    assert (instance_of(uuid).host, migration_of(uuid).status) == (home, "reverted")
    assert hosts.has(uuid) == {home: RUNNING}
    assert_at_rest(hosts, uuid)


def test_a_resize_on_its_own_host_counts_the_larger_of_both(hosts: Hosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host or ""
    Service.objects.using(CELL).exclude(host=home).update(is_disabled=True)
    held = held_by(uuid)[home]
    resizes.resize(ana, uuid, "2")
    run_to_the_end(hosts)
    assert instance_of(uuid).host == home
    new = held_by(uuid)[home]
    kept = held_by(str(migration_of(uuid).uuid)).get(home, {})
    for kind in new.keys() | held.keys():
        assert new.get(kind, 0) + kept.get(kind, 0) == max(new.get(kind, 0), held.get(kind, 0))
    resizes.revert(ana, uuid)
    run_to_the_end(hosts)
    assert held_by(uuid) == {home: held}
    assert_at_rest(hosts, uuid)


def test_a_resize_on_its_own_host_needs_capacity_for_the_growth_only(hosts: Hosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    large = flavors.get(ana, "2").spec.memory_mb
    home = instance_of(uuid).host or ""
    Service.objects.using(CELL).exclude(host=home).update(is_disabled=True)
    assert 0 < held_by(uuid)[home]["MEMORY_MB"] < large
    ProviderInventory.objects.filter(provider__name=home, resource_class="MEMORY_MB").update(total=large)
    resizes.resize(ana, uuid, "2")
    run_to_the_end(hosts)
    assert (instance_of(uuid).vm_state, held_by(uuid)[home]["MEMORY_MB"]) == (VmState.RESIZED, large)
    resizes.confirm(ana, uuid)
    run_to_the_end(hosts)
    assert_at_rest(hosts, uuid)


def test_invalid_moves_are_refused_and_nothing_changes(hosts: Hosts, ana: Any, people: Any, launch: Any) -> None:
    uuid = launch()
    chi, admin = people.chi.context(), people.admin.context()
    refusals: list[tuple[type[Exception], str, Any]] = [
        (Invalid, "must change flavor", lambda: resizes.resize(ana, uuid, "1")),
        (Invalid, "nothing", lambda: resizes.resize(ana, uuid, "nothing")),
        (NotFound, "could not be found", lambda: resizes.resize(chi, uuid, "2")),
        (Invalid, "could not be found", lambda: resizes.migrate(admin, uuid, "nowhere")),
        (Invalid, "already", lambda: resizes.migrate(admin, uuid, instance_of(uuid).host or "")),
        (Conflict, "vm_state active", lambda: resizes.confirm(ana, uuid)),
        (Conflict, "vm_state active", lambda: resizes.revert(ana, uuid)),
    ]
    before = instance_of(uuid)
    for kind, words, ask in refusals:
        with pytest.raises(kind, match=words):
            ask()
    quotas.update(admin, ana.project_id, {"ram": before.flavor["memory_mb"]})
    with pytest.raises(QuotaExceeded, match="ram"):
        resizes.resize(ana, uuid, "2")
    silence(before.host or "")
    with pytest.raises(Conflict, match="does not answer"):
        resizes.resize(ana, uuid, "2")
    assert instance_of(uuid).updated_at == before.updated_at
    assert not WorkflowRun.objects.using(CELL).filter(flow="resize_instance").exists()
    assert InstanceMapping.objects.get(instance_uuid=uuid).memory_mb == before.flavor["memory_mb"]


def test_the_quota_counts_the_growth_until_it_is_settled(hosts: Hosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    small, large = (flavors.get(ana, ref).spec.memory_mb for ref in ("1", "2"))
    resizes.resize(ana, uuid, "2")
    run_to_the_end(hosts)
    assert quotas.usage(ana.project_id).ram == large
    resizes.revert(ana, uuid)
    run_to_the_end(hosts)
    assert quotas.usage(ana.project_id).ram == small


def test_an_overdue_resize_is_confirmed_by_itself(hosts: Hosts, admin: Any, launch: Any, settings: Any) -> None:
    uuid = launch()
    resizes.migrate(admin, uuid)
    run_to_the_end(hosts)
    assert resizes.confirm_overdue(CELL) == 0
    settings.NOVELLA_RESIZE_CONFIRM_SECONDS = 1e-6
    assert resizes.confirm_overdue(CELL) == 1
    assert resizes.confirm_overdue(CELL) == 0
    run_to_the_end(hosts)
    assert (instance_of(uuid).vm_state, migration_of(uuid).status) == (VmState.ACTIVE, "confirmed")
    assert_at_rest(hosts, uuid)


def test_without_a_host_the_server_shows_the_reason(hosts: Hosts, admin: Any, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host
    Service.objects.using(CELL).exclude(host=home).update(is_disabled=True)
    resizes.migrate(admin, uuid)
    run_to_the_end(hosts)
    fault = InstanceFault.objects.using(CELL).get(instance_uuid=uuid)
    assert instance_of(uuid).vm_state == VmState.ACTIVE
    assert "No valid host was found" in fault.message
    assert fault.decision_uuid
    assert_at_rest(hosts, uuid)
