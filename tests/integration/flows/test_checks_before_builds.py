"""A host is asked whether it can build a server before anything is prepared; its refusal leads to the next host."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.cell_db.models import ComputeNode, InstanceFault, Service
from conductor.core.context import system_context
from conductor.core.states import VmState
from conductor.db.transactions import database_now
from conductor.image.models import Image
from conductor.journal.models import OutboxMessage, StepRecord, WorkflowRun
from conductor.network.models import Port
from conductor.rpc import backports
from conductor.rpc.versions import SERVICE_VERSION
from conductor.services.scheduling import decisions
from conductor.services.servers import instances
from conductor.services.servers.types import InstanceCreate
from conductor.services.volumes import volumes
from conductor.services.volumes.types import DeviceRequest
from conductor.services.volumes.volumes import VolumeCreate
from tests.counting import counted_in
from tests.fixtures.builds import held
from tests.fleet import silence
from tests.integration.flows.moving import CELL, Body, Hosts, instance_of, report_checks, run_to_the_end, step_on
from tests.integration.page_clients import signed_in

NO_MEMORY = "check_build failed"  # what these hosts say


class Checking(Hosts):
    """Hosts whose driver checks builds. `at_checks` are the guest and the number of ports when each was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.at_checks: list[tuple[Body, int]] = []

    def answer(self, alias: str, command: OutboxMessage) -> bool:
        if command.body["message"] == "check_build":
            self.at_checks.append((command.body["body"]["guest"], Port.objects.count()))
        return super().answer(alias, command)


@pytest.fixture
def hosts(hosts: Hosts) -> Checking:
    report_checks()
    return Checking()


def refuse(hosts: Checking, *, times: int, fault: str = "DriverError") -> None:
    hosts.fails = lambda message, _: fault if message == "check_build" and len(hosts.at_checks) <= times else None


def fates() -> dict[str, tuple[str, str]]:
    """Return the outcome of each host of the decision, with its reason, as operators see them."""
    run = WorkflowRun.objects.get(flow="build_instances")
    ((found,),) = [view.selections for view in decisions.for_run(system_context(), str(run.uuid))]
    return {one["host"]: (one["fate"], one["reason"]) for one in (found, *found["alternates"])}


def test_after_a_refused_check_the_next_host_is_tried_with_nothing_to_undo(hosts: Checking, launch: Any) -> None:
    refuse(hosts, times=1)
    uuid = launch(user_data="c2VjcmV0")
    first, second = (host for message, host in hosts.commands if message == "check_build")
    assert hosts.commands == [("check_build", first), ("check_build", second), ("spawn_instance", second)]
    assert [ports for _, ports in hosts.at_checks] == [0, 0]
    assert [(guest["ports"], guest["user_data"]) for guest, _ in hosts.at_checks] == [([], "")] * 2
    assert (instance_of(uuid).vm_state, instance_of(uuid).host) == (VmState.ACTIVE, second)
    undone = StepRecord.objects.using(CELL).filter(direction="undo").values_list("name", flat=True)
    assert list(undone) == ["ClaimDestination"]
    assert ComputeNode.objects.using(CELL).get(host=first).failed_builds == 0  # it is not broken
    (third,) = {"sim-1", "sim-2", "sim-3"} - {first, second}
    assert fates() == {first: ("refused", NO_MEMORY), second: ("used", ""), third: ("not needed", "")}
    run = WorkflowRun.objects.get(flow="build_instances")
    assert f"(refused: {NO_MEMORY})" in signed_in("admin").get(f"/workflows/{run.uuid}/placement").content.decode()


def test_all_hosts_refuse(hosts: Checking, launch: Any) -> None:
    refuse(hosts, times=9)
    uuid = launch()
    assert instance_of(uuid).vm_state == VmState.ERROR
    assert InstanceFault.objects.using(CELL).get(instance_uuid=uuid).message == NO_MEMORY
    assert set(fates().values()) == {("refused", NO_MEMORY)}
    assert [message for message, _ in hosts.commands] == ["check_build"] * 3
    assert held() == {}


def test_a_server_that_no_host_can_build_is_checked_once(hosts: Checking, launch: Any) -> None:
    refuse(hosts, times=9, fault="BuildAborted")
    uuid = launch()
    assert instance_of(uuid).vm_state == VmState.ERROR
    assert [message for message, _ in hosts.commands] == ["check_build"]
    assert held() == {}


def test_a_host_that_gives_no_answer_has_not_refused(hosts: Checking, ana: Any) -> None:
    image = Image.objects.get(name="simulated-linux")
    instances.create(ana, InstanceCreate(name="web-1", flavor_ref="1", image_ref=str(image.uuid)))
    hosts.mute = {"sim-1", "sim-2", "sim-3"}
    for _ in range(10):  # the check is sent, and the host falls silent
        step_on(hosts)
    host = OutboxMessage.objects.using(CELL).get().host
    hosts.mute = {host}
    silence(host)
    WorkflowRun.objects.using(CELL).update(wake_at=database_now())
    run_to_the_end(hosts)
    assert fates()[host] == ("failed", "")
    assert {name for name, _ in hosts.commands} == {"check_build", "spawn_instance"}


def test_the_check_names_the_volumes_before_they_are_filled(hosts: Checking, ana: Any) -> None:
    volume = str(volumes.create(ana, VolumeCreate(size_gb=2, name="system", is_bootable=True)).uuid)
    device = DeviceRequest(source="volume", destination="volume", uuid=volume, boot_index=0)
    instances.create(ana, InstanceCreate(name="web-1", flavor_ref="1", image_ref="", devices=(device,)))
    refuse(hosts, times=1)
    run_to_the_end(hosts)
    announced = [guest["volumes"] for guest, _ in hosts.at_checks]
    assert [[(one["volume_uuid"], one["boot_index"], one["path"]) for one in each] for each in announced] == (
        [[(volume, 0, "")]] * 2
    )
    undone = StepRecord.objects.using(CELL).filter(direction="undo").values_list("name", flat=True)
    assert list(undone) == ["ClaimDestination"]


def test_a_host_without_checks_is_not_asked(hosts: Checking, launch: Any) -> None:
    for node in ComputeNode.objects.using(CELL).all():
        del node.report["capabilities"]["checks_builds"]
        node.save(using=CELL)
    launch()
    assert [message for message, _ in hosts.commands] == ["spawn_instance"]
    assert StepRecord.objects.using(CELL).get(name="CheckOnHost").state == "skipped"


def test_a_host_of_an_earlier_release_is_not_asked(hosts: Checking, launch: Any) -> None:
    """Even where its last report is one of this release: it was downgraded since."""
    Service.objects.using(CELL).update(version=SERVICE_VERSION - 1)
    backports.forget()
    launch()
    backports.forget()
    assert [message for message, _ in hosts.commands] == ["spawn_instance"]


def cost(hosts: Checking, launch: Any, message: str, times: int) -> tuple[int, int]:
    """Return the statements and commands of a launch whose first commands of this kind fail."""
    left = [times]

    def fails(kind: str, host: str) -> str | None:
        left[0] -= kind == message
        return "DriverError" if kind == message and left[0] >= 0 else None

    hosts.fails = fails
    before = len(hosts.commands)
    with counted_in("default", CELL) as seen:
        launch()
    return sum(len(one.statements) for one in seen.values()), len(hosts.commands) - before


@pytest.mark.usefixtures("reads_nothing_by_the_clock")
def test_a_refusal_costs_less_than_a_failed_build(hosts: Checking, launch: Any) -> None:
    launch()
    direct, refused, failed = (
        cost(hosts, launch, *case) for case in (("", 0), ("check_build", 1), ("spawn_instance", 1))
    )
    assert refused[1] - direct[1] == 1  # the question to the next host
    assert failed[1] - direct[1] == 3  # undo, question, build
    assert refused[0] - direct[0] < failed[0] - direct[0]
