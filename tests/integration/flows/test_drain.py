"""Drains: every server leaves or has a reason to stay, no new server comes, and placement ends empty."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conductor.cell_db.models import Drain, Instance, Service
from conductor.core.errors import Conflict, Invalid, NotFound, ResourceLocked
from conductor.core.states import RunState, VmState
from conductor.image.models import Image
from conductor.journal.models import ResourceLock, WorkflowRun
from conductor.placement import traits
from conductor.placement.models import Allocation
from conductor.services.fleet import drains
from conductor.services.fleet.drains import DrainRequest
from conductor.services.server_migrations import live_migrations, resizes
from conductor.services.servers import instances
from conductor.services.servers.types import InstanceCreate
from conductor.workflows.flows.build import HandOver
from tests.fixtures.drains import ROUNDS, drained, pack, unpack
from tests.fleet import provider_of
from tests.integration.flows.moving import (
    CELL,
    OFF,
    Hosts,
    assert_at_rest,
    assert_placement_is_true,
    instance_of,
    run_to_the_end,
    step_on,
)


@pytest.fixture
def packed(launch: Any) -> list[str]:
    """Four servers on sim-1."""
    pack("sim-1")
    uuids = [launch(f"web-{number}") for number in range(4)]
    unpack()
    return uuids


def run_of_drain() -> WorkflowRun:
    run = WorkflowRun.objects.using(CELL).filter(flow="drain_host").order_by("-pk").first()
    assert run is not None
    return run


def test_a_host_is_emptied_live_and_cold_and_stays_closed(hosts: Hosts, admin: Any, packed: list[str]) -> None:
    off = packed[0]
    Instance.objects.using(CELL).filter(uuid=off).update(vm_state=VmState.STOPPED, power_state=4)
    hosts.guests["sim-1"][off] = OFF
    assert {row.how for row in drains.preview(admin, "sim-1", DrainRequest())} == {"live", "cold"}
    drains.begin(admin, "sim-1", DrainRequest(most_at_once=2))
    most = 0
    for _ in range(ROUNDS):
        resizes.confirm_overdue(CELL)
        drains.advance(CELL)
        most = max(most, drains.get(admin, "sim-1").moving)
        if not step_on(hosts):
            break
    assert run_of_drain().state == RunState.DONE
    assert most == 2
    assert not Instance.objects.using(CELL).filter(host="sim-1").exists()
    assert not Allocation.objects.filter(provider__uuid=provider_of("sim-1")).exists()
    assert instance_of(off).vm_state == VmState.STOPPED
    service = Service.objects.using(CELL).get(host="sim-1")
    assert (service.is_disabled, "maintenance" in (service.disabled_reason or "")) == (True, True)
    for uuid in packed:
        assert_at_rest(hosts, uuid)
    assert traits.DISABLED in traits.of_provider(provider_of("sim-1"))[1]
    drains.open_again(admin, "sim-1")
    assert not Service.objects.using(CELL).get(host="sim-1").is_disabled
    assert traits.DISABLED not in traits.of_provider(provider_of("sim-1"))[1]


def test_servers_that_cannot_move_are_listed_with_the_reason(hosts: Hosts, admin: Any, packed: list[str]) -> None:
    stuck = packed[1]
    Instance.objects.using(CELL).filter(uuid=stuck).update(vm_state=VmState.SUSPENDED)
    drains.begin(admin, "sim-1", DrainRequest(most_at_once=4))
    assert not drained(hosts, rounds=25)
    view = drains.get(admin, "sim-1")
    assert [(row.instance_uuid, row.reason) for row in view.left] == [
        (stuck, "it is suspended: resume it, or delete it")
    ]
    run = run_of_drain()
    assert (run.state, run.waits_for["cause"]) == (RunState.WAITING, "children")  # type: ignore[index]
    assert "1 cannot leave" in run.waits_for["detail"]  # type: ignore[index]
    Instance.objects.using(CELL).filter(uuid=stuck).update(vm_state=VmState.ACTIVE)
    assert drained(hosts)
    assert run_of_drain().state == RunState.DONE


def test_a_failed_live_migration_of_a_drain_is_followed_by_a_cold_one_where_allowed(
    hosts: Hosts, admin: Any, packed: list[str]
) -> None:
    hosts.fails = lambda message, host: "DriverError" if message == "live_migrate" else None
    drains.begin(admin, "sim-1", DrainRequest(most_at_once=4, allows_cold=True))
    assert drained(hosts)
    assert not Instance.objects.using(CELL).filter(host="sim-1").exists()
    flows = WorkflowRun.objects.using(CELL).filter(parent_uuid=run_of_drain().uuid).values_list("flow", flat=True)
    assert sorted(set(flows)) == ["live_migrate_instance", "resize_instance"]
    assert {instance_of(uuid).vm_state for uuid in packed} == {VmState.ACTIVE}
    assert_placement_is_true()


def test_a_drain_leaves_a_server_in_place_after_repeated_failures(hosts: Hosts, admin: Any, packed: list[str]) -> None:
    hosts.fails = lambda message, host: "DriverError" if message == "live_migrate" else None
    drains.begin(admin, "sim-1", DrainRequest(most_at_once=4, allows_cold=False))
    assert not drained(hosts, rounds=60)
    assert all(row.reason.startswith("tried 3 times: live_migrate failed") for row in drains.get(admin, "sim-1").left)
    tried = WorkflowRun.objects.using(CELL).filter(parent_uuid=run_of_drain().uuid).count()
    assert tried == 3 * len(packed)
    drains.act(admin, "sim-1", "cancel")
    run_to_the_end(hosts)
    assert not Service.objects.using(CELL).get(host="sim-1").is_disabled


def test_pause_resume_stop_and_cancel(hosts: Hosts, admin: Any, packed: list[str]) -> None:
    drains.begin(admin, "sim-1", DrainRequest(most_at_once=1))
    drains.act(admin, "sim-1", "pause")
    assert not drained(hosts, rounds=10)
    assert drains.get(admin, "sim-1").moved == 0
    drains.act(admin, "sim-1", "resume")
    for _ in range(6):
        drains.advance(CELL)
        step_on(hosts)
    assert 0 < drains.get(admin, "sim-1").moved < len(packed)
    with pytest.raises(Conflict, match="is draining host"):
        drains.open_again(admin, "sim-1")
    drains.act(admin, "sim-1", "stop")
    run_to_the_end(hosts)
    assert run_of_drain().state == RunState.CANCELLED
    assert Service.objects.using(CELL).get(host="sim-1").is_disabled, "stopped, it stays closed"
    with pytest.raises(Conflict, match="has ended"):
        drains.act(admin, "sim-1", "pause")
    drains.open_again(admin, "sim-1")
    drains.begin(admin, "sim-1", DrainRequest())
    drains.act(admin, "sim-1", "cancel")
    run_to_the_end(hosts)
    assert not Service.objects.using(CELL).get(host="sim-1").is_disabled
    assert not ResourceLock.objects.using(CELL).exists()


def test_after_its_deadline_nothing_more_begins_until_it_is_resumed(
    hosts: Hosts, admin: Any, packed: list[str]
) -> None:
    now = datetime.now(UTC)
    with pytest.raises(Invalid, match="must be in the future"):
        drains.begin(admin, "sim-1", DrainRequest(deadline_at=now - timedelta(minutes=1)))
    drains.begin(admin, "sim-1", DrainRequest(most_at_once=1, deadline_at=now + timedelta(hours=1)))
    step_on(hosts)
    drains.advance(CELL)
    Drain.objects.using(CELL).update(deadline_at=now - timedelta(seconds=1))
    assert not drained(hosts), "what was on its way arrives, and no other begins"
    view = drains.get(admin, "sim-1")
    assert (view.is_late, view.moved, view.moving, len(view.left)) == (True, 1, 0, 3)
    assert run_of_drain().waits_for["detail"] == "deadline passed, 3 servers left"  # type: ignore[index]
    with pytest.raises(Invalid, match="must be in the future"):
        drains.act(admin, "sim-1", "resume", deadline_at=now - timedelta(minutes=1))
    until = now + timedelta(hours=2)
    resumed = drains.act(admin, "sim-1", "resume", deadline_at=until)
    assert (resumed.is_late, resumed.requested.deadline_at) == (False, until)
    assert drains.act(admin, "sim-1", "pause").requested.deadline_at == until, "a pause does not change it"
    assert drains.act(admin, "sim-1", "resume").requested.deadline_at == until
    assert drained(hosts)
    assert run_of_drain().state == RunState.DONE


def test_a_note_on_a_host_goes_with_its_return(hosts: Hosts, admin: Any) -> None:
    def kept() -> str:
        return Service.objects.using(CELL).get(host="sim-1").maintenance_note

    with pytest.raises(Conflict, match="in service"):
        drains.note(admin, "sim-1", "new fans")
    drains.begin(admin, "sim-1", DrainRequest())
    drains.note(admin, "sim-1", "new fans, until Friday")
    with pytest.raises(Invalid, match="1000 characters"):
        drains.note(admin, "sim-1", "x" * 1001)
    assert drained(hosts)
    assert kept() == "new fans, until Friday"
    drains.open_again(admin, "sim-1")
    assert kept() == ""
    drains.begin(admin, "sim-1", DrainRequest())
    drains.note(admin, "sim-1", "again")
    drains.act(admin, "sim-1", "cancel")
    run_to_the_end(hosts)
    assert kept() == "", "given up, it is in service as before"


def test_a_second_drain_of_a_host_is_refused(hosts: Hosts, admin: Any) -> None:
    drains.begin(admin, "sim-1", DrainRequest())
    with pytest.raises(ResourceLocked, match="drain"):
        drains.begin(admin, "sim-1", DrainRequest())
    with pytest.raises(NotFound, match="could not be found"):
        drains.begin(admin, "moon", DrainRequest())
    with pytest.raises(Invalid, match="1 to 100"):
        drains.begin(admin, "sim-2", DrainRequest(most_at_once=0))
    assert WorkflowRun.objects.using(CELL).filter(flow="drain_host").count() == 1


def test_a_drain_waits_for_arriving_servers_and_later_ones_go_elsewhere(hosts: Hosts, admin: Any, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host or ""
    away = sorted({"sim-1", "sim-2", "sim-3"} - {home})[0]
    live_migrations.begin(admin, uuid, away)
    hosts.mute.add(home)
    for _ in range(4):
        step_on(hosts)
    drains.begin(admin, away, DrainRequest())
    assert not drained(hosts, rounds=8)
    assert "1 workflows that use it" in run_of_drain().waits_for["detail"]  # type: ignore[index]
    hosts.mute.clear()
    assert drained(hosts)
    assert run_of_drain().state == RunState.DONE
    assert instance_of(uuid).host != away
    assert_at_rest(hosts, uuid)


def test_a_build_that_was_placed_before_the_host_was_closed_finds_another(
    hosts: Hosts, admin: Any, ana: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the scheduler's choice and the cell's first step the host is taken: the build takes its alternate."""
    image = Image.objects.get(name="simulated-linux")
    whole = HandOver.execute
    taken: list[str] = []

    def then_drained(self: HandOver, work: Any) -> Any:
        result = whole(self, work)
        (child,) = WorkflowRun.objects.using(CELL).filter(flow="build_in_cell")
        taken.append(child.inputs["selections"][0]["host"])
        drains.begin(admin, taken[0], DrainRequest())
        return result

    monkeypatch.setattr(HandOver, "execute", then_drained)
    requested = InstanceCreate(name="web", flavor_ref="1", image_ref=str(image.uuid))
    (uuid,) = instances.create(ana, requested).instance_uuids
    assert drained(hosts)
    assert (instance_of(uuid).vm_state, instance_of(uuid).host != taken[0]) == (VmState.ACTIVE, True)
    assert run_of_drain().state == RunState.DONE
    assert_at_rest(hosts, uuid)
