"""Attach and detach of ports, with each step failing in turn: a port is the server's, or free, or gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from django.db import connections

from conductor.cell_db.models import Instance, InstanceFault
from conductor.core.errors import Conflict, Invalid, NotFound, ResourceLocked
from conductor.core.states import RunState, VmState
from conductor.db.transactions import database_now
from conductor.image.models import Image
from conductor.journal import locks
from conductor.journal.models import ResourceLock, WorkflowRun
from conductor.network import addresses, port_operations, ports
from conductor.network.models import Network, Port
from conductor.network.port_operations import PortCreate
from conductor.services.operations import storage_cleanup
from conductor.services.servers import actions, instances, interfaces
from conductor.services.servers.interfaces import InterfaceCreate
from conductor.services.servers.types import NetworkRequest
from conductor.services.workflows import workflows
from conductor.workflows.flow import Step
from conductor.workflows.flows.attachments import ATTACH_INTERFACE, DETACH_INTERFACE
from tests.integration.flows.moving import CELL, instance_of, run_to_the_end, step_on
from tests.integration.flows.storing import StorageHosts, assert_nothing_under_way, part_of, run_of, taken, times_of
from tests.integration.page_clients import signed_in, text
from tests.waiting import WAIT_SECONDS, wait_until

MADE, GIVEN = "made", "given"


@pytest.fixture
def hosts(hosts: Any) -> StorageHosts:
    return StorageHosts()


def network() -> str:
    return str(Network.objects.get(name="private").uuid)


def given_port(ana: Any) -> str:
    return str(port_operations.create_port(ana, PortCreate(network())).uuid)


def request_of(kind: str, ana: Any) -> InterfaceCreate:
    return InterfaceCreate(port_id=given_port(ana)) if kind == GIVEN else InterfaceCreate(network_id=network())


def assert_plugged(hosts: StorageHosts, uuid: str, port_id: str) -> None:
    """Check that all records of the port agree."""
    row, port = instance_of(uuid), Port.objects.get(uuid=port_id)
    assert (port.device_id, port.binding_host, port.status) == (uuid, row.host, "ACTIVE")
    assert port_id in [one["port_uuid"] for one in row.addresses]
    assert port_id in hosts.plugged[uuid]
    assert_nothing_under_way(uuid)


def assert_unplugged(hosts: StorageHosts, uuid: str, port_id: str) -> None:
    assert port_id not in [one["port_uuid"] for one in instance_of(uuid).addresses]
    assert port_id not in hosts.plugged[uuid]
    assert not Port.objects.filter(uuid=port_id).exclude(device_id="").exists()
    assert_nothing_under_way(uuid)


@pytest.mark.parametrize("kind", [MADE, GIVEN])
def test_a_port_is_plugged_and_unplugged(kind: str, hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    requested, before = request_of(kind, ana), taken()
    interface = interfaces.attach(ana, uuid, requested)
    (address,) = interface.addresses
    assert ResourceLock.objects.get(resource=f"port:{interface.port_id}").holder_uuid
    run_to_the_end(hosts)
    assert_plugged(hosts, uuid, interface.port_id)
    shown = interfaces.list_interfaces(ana, uuid)
    assert [one.port_id for one in shown] == [one["port_uuid"] for one in instance_of(uuid).addresses]
    assert shown[1].addresses == (address,)
    interfaces.detach(ana, uuid, interface.port_id)
    page = text(signed_in("ana").get(f"/servers/{uuid}/network"))
    assert page.count("disabled>Detach requested</button>") == 1
    assert f"port={interface.port_id}" not in page, "it cannot be detached twice"
    run_to_the_end(hosts)
    assert_unplugged(hosts, uuid, interface.port_id)
    assert taken() == before
    assert Port.objects.filter(uuid=interface.port_id).exists() == (kind == GIVEN)


@pytest.mark.parametrize("kind", [MADE, GIVEN])
@pytest.mark.parametrize("is_for_ever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("step", ATTACH_INTERFACE.steps, ids=lambda step: step.name)
def test_an_attach_that_fails_leaves_ports_as_they_were(
    step: Step, is_for_ever: bool, kind: str, hosts: StorageHosts, launch: Any, request: Any
) -> None:
    ana, trouble = request.getfixturevalue("ana"), request.getfixturevalue("trouble")
    uuid = launch()
    requested, before = request_of(kind, ana), taken()
    trouble.strike(step, part_of(step), times=times_of(step) if is_for_ever else 1)
    interface = interfaces.attach(ana, uuid, requested)
    run_to_the_end(hosts)
    assert run_of(uuid, "attach_interface").state == RunState.FAILED_UNDONE
    assert InstanceFault.objects.using(CELL).get(instance_uuid=uuid).message == "RuntimeError"
    assert_unplugged(hosts, uuid, interface.port_id)
    assert taken() == before


@pytest.mark.parametrize("is_for_ever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("step", DETACH_INTERFACE.steps, ids=lambda step: step.name)
def test_a_detach_that_fails_leaves_it_plugged(
    step: Step, is_for_ever: bool, hosts: StorageHosts, ana: Any, launch: Any, trouble: Any
) -> None:
    uuid = launch()
    port_id = instance_of(uuid).addresses[0]["port_uuid"]
    hosts.plugged[uuid].add(port_id)
    trouble.strike(step, part_of(step), times=times_of(step) if is_for_ever else 1)
    interfaces.detach(ana, uuid, port_id)
    run_to_the_end(hosts)
    if run_of(uuid, "detach_interface").state == RunState.DONE:
        assert_unplugged(hosts, uuid, port_id)
        assert not Port.objects.filter(uuid=port_id).exists()
    else:
        assert_plugged(hosts, uuid, port_id)


def test_a_delete_in_the_middle_leaves_no_port(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    interfaces.attach(ana, uuid, InterfaceCreate(network_id=network()))
    instances.delete(ana, uuid)
    run_to_the_end(hosts)
    assert instance_of(uuid).vm_state == VmState.DELETED
    assert taken() == {"allocations": 0, "ports": 0, "addresses": 0}
    assert_nothing_under_way(uuid)


def test_refused_requests_create_no_port(hosts: StorageHosts, ana: Any, people: Any, launch: Any) -> None:
    uuid = launch()
    before, nothing = taken(), "99999999-9999-9999-9999-999999999999"
    used = instance_of(uuid).addresses[0]
    for requested, kind in (
        (InterfaceCreate(network_id=nothing), NotFound),
        (InterfaceCreate(port_id=nothing), NotFound),
        (InterfaceCreate(port_id=used["port_uuid"]), Conflict),
        (InterfaceCreate(network_id=network(), fixed_ip=used["ip_address"]), Invalid),
        (InterfaceCreate(network_id=network(), fixed_ip="192.0.2.1"), Invalid),
        (InterfaceCreate(fixed_ip="10.64.0.99"), Invalid),
        (InterfaceCreate(port_id=used["port_uuid"], network_id=network()), Invalid),
    ):
        with pytest.raises(kind):
            interfaces.attach(ana, uuid, requested)
    with pytest.raises(NotFound):
        interfaces.attach(people.chi.context(), uuid, InterfaceCreate(network_id=network()))
    with pytest.raises(NotFound):
        interfaces.detach(ana, uuid, nothing)
    Instance.objects.using(CELL).filter(uuid=uuid).update(vm_state=VmState.SUSPENDED)
    with pytest.raises(Conflict, match="vm_state suspended"):
        interfaces.attach(ana, uuid, InterfaceCreate(network_id=network()))
    assert taken() == before
    assert_nothing_under_way(uuid)


def test_a_locked_port_is_refused_with_its_holder(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid, other = launch(), launch("web-2")
    port_id = given_port(ana)
    run_uuid = interfaces.attach(ana, uuid, InterfaceCreate(port_id=port_id)).run_uuid
    for refused in (
        lambda: interfaces.delete_port(ana, port_id),
        lambda: interfaces.update_port(ana, port_id, {"name": "mine"}),
        lambda: interfaces.attach(ana, other, InterfaceCreate(port_id=port_id)),
    ):
        with pytest.raises(ResourceLocked, match=run_uuid):
            refused()
    run_to_the_end(hosts)
    assert_plugged(hosts, uuid, port_id)
    assert Port.objects.get(uuid=port_id).name == ""


def test_all_ports_of_a_network_go_at_once(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    """Clients ask for each of them without waiting for the one before, and then for a new one."""
    uuid = launch()
    interfaces.attach(ana, uuid, InterfaceCreate(network_id=network()))
    run_to_the_end(hosts)
    old = [port["port_uuid"] for port in instance_of(uuid).addresses]
    runs = [interfaces.detach(ana, uuid, port_id) for port_id in old]
    with pytest.raises(ResourceLocked, match=runs[1]):
        interfaces.detach(ana, uuid, old[1])
    new = interfaces.attach(ana, uuid, InterfaceCreate(network_id=network()))
    run_to_the_end(hosts)
    assert [port["port_uuid"] for port in instance_of(uuid).addresses] == [new.port_id]
    assert_plugged(hosts, uuid, new.port_id)


@contextmanager
def conductors(hosts: StorageHosts) -> Iterator[None]:
    """Runs are worked on beside the block, as in a cloud."""
    done = threading.Event()

    def work() -> None:
        while not done.wait(0.01):
            step_on(hosts)
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()


@pytest.mark.parametrize("kind", [MADE, GIVEN])
def test_the_answer_comes_when_the_server_has_the_port(
    kind: str, hosts: StorageHosts, ana: Any, launch: Any, api_client: Any, settings: Any
) -> None:
    settings.NOVELLA_INTERFACE_SECONDS = 600.0
    uuid, client = launch(), api_client("ana", version="2.70")
    path = f"/compute/v2.1/servers/{uuid}/os-interface"
    body = {"port_id": given_port(ana)} if kind == GIVEN else {"net_id": network()}
    with conductors(hosts):
        answer = client.post(path, {"interfaceAttachment": body | {"tag": "second"}})
        assert answer.status_code == 200
        made = answer.json()["interfaceAttachment"]
        assert (made["port_state"], made["tag"]) == ("ACTIVE", "second")
        assert made in client.get(path).json()["interfaceAttachments"]
        port = client.get(f"/network/v2.0/ports/{made['port_id']}").json()["port"]
        assert (port["device_id"], port["device_owner"]) == (uuid, "compute:nova")
        assert client.delete(f"{path}/{made['port_id']}").status_code == 202
        wait_until("the port is gone", lambda: len(client.get(path).json()["interfaceAttachments"]) == 1)
    run_to_the_end(hosts)
    assert_unplugged(hosts, uuid, made["port_id"])


def test_ports_that_a_server_gets_later_count_against_the_quota(
    hosts: StorageHosts, ana: Any, launch: Any, api_client: Any
) -> None:
    """Otherwise one server could take any number of ports."""
    uuid, client, admin = launch(), api_client("ana", version="2.70"), api_client("admin")
    path = f"/compute/v2.1/servers/{uuid}/os-interface"
    assert admin.put(f"/network/v2.0/quotas/{ana.project_id}", {"quota": {"port": 3}}).status_code == 200
    given, before = given_port(ana), taken()
    assert client.post(path, {"interfaceAttachment": {"net_id": network()}}).status_code == 200
    run_to_the_end(hosts)
    refused = client.post(path, {"interfaceAttachment": {"net_id": network()}})
    assert refused.status_code == 403, refused.content
    assert "port" in refused.json()["forbidden"]["message"]
    assert taken()["ports"] == before["ports"] + 1
    assert_nothing_under_way(uuid)
    assert client.post(path, {"interfaceAttachment": {"port_id": given}}).status_code == 200, "it counts already"


def test_no_action_of_a_server_takes_more_than_the_share_of_a_shared_network(
    hosts: StorageHosts, ana: Any, launch: Any, api_client: Any, settings: Any
) -> None:
    settings.NOVELLA_SHARED_SUBNET_PERCENT = 0  # the least share there is
    uuid, client = launch(), api_client("ana", version="2.43")
    assert Network.objects.get(uuid=network()).project_id != ana.project_id
    for _ in range(addresses.LEAST_SHARE - 1):
        given_port(ana)
    before, path = taken(), f"/compute/v2.1/servers/{uuid}"
    refused = [
        client.post(f"{path}/os-interface", {"interfaceAttachment": {"net_id": network()}}),
        client.post(f"{path}/action", {"addFixedIp": {"networkId": network()}}),
    ]
    assert [answer.status_code for answer in refused] == [409, 400], [answer.content for answer in refused]
    image = str(Image.objects.get(name="simulated-linux").uuid)
    wanted = {"name": "web-2", "flavorRef": "1", "imageRef": image, "networks": [{"uuid": network()}]}
    second = client.post("/compute/v2.1/servers", {"server": wanted}).json()["server"]["id"]
    run_to_the_end(hosts)
    shown = client.get(f"/compute/v2.1/servers/{second}").json()["server"]
    assert (shown["status"], "share" in shown["fault"]["message"]) == ("ERROR", True)
    found = taken()
    assert (found["ports"], found["addresses"]) == (before["ports"], before["addresses"])
    assert_nothing_under_way(uuid)


@pytest.mark.parametrize("kind", [MADE, GIVEN])
def test_a_host_that_refuses_the_port_is_the_answer(
    kind: str, hosts: StorageHosts, ana: Any, launch: Any, api_client: Any, settings: Any
) -> None:
    settings.NOVELLA_INTERFACE_SECONDS = 600.0
    uuid, before = launch(), taken()
    given = given_port(ana) if kind == GIVEN else ""
    hosts.fails = lambda message, host: "DriverError" if message == "attach_interface" else None
    body = {"port_id": given} if given else {"net_id": network()}
    with conductors(hosts):
        path = f"/compute/v2.1/servers/{uuid}/os-interface"
        answer = api_client("ana").post(path, {"interfaceAttachment": body})
    assert answer.status_code == 500
    assert "attach_interface failed" in answer.json()["computeFault"]["message"]
    assert not Port.objects.filter(device_id=uuid, is_plugged=False).exists()
    assert taken()["ports"] == before["ports"] + bool(given)
    assert_nothing_under_way(uuid)


def test_an_answer_that_cannot_wait_names_the_port_that_is_on_its_way(
    hosts: StorageHosts, ana: Any, launch: Any, api_client: Any
) -> None:
    """Without time to wait the port names its server all the same."""
    uuid, given, client = launch(), given_port(ana), api_client("ana")
    path = f"/compute/v2.1/servers/{uuid}/os-interface"
    assert client.post(path, {"interfaceAttachment": {"port_id": given}}).status_code == 200
    assert client.get(f"/network/v2.0/ports/{given}").json()["port"]["device_id"] == uuid
    run_to_the_end(hosts)
    assert_plugged(hosts, uuid, given)


def test_no_more_requests_wait_than_half_of_the_threads(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    run_uuid = interfaces.attach(ana, uuid, InterfaceCreate(network_id=network())).run_uuid
    with ExitStack() as others:
        for _ in range(workflows.MOST_WAITING):
            others.enter_context(workflows._places)
        assert workflows.end_of(CELL, run_uuid, 3600.0) is None  # at once: no test may take so long
    run_to_the_end(hosts)
    assert workflows.end_of(CELL, run_uuid, 3600.0) == RunState.DONE


@pytest.mark.parametrize("verb", ["attach", "detach"])
def test_a_run_that_waits_for_a_lock_is_cancelled_with_its_server(
    verb: str, hosts: StorageHosts, ana: Any, launch: Any
) -> None:
    uuid = launch()
    before = {"ports": Port.objects.count() - 1}
    interfaces.attach(ana, uuid, InterfaceCreate(network_id=network()))
    if verb == "attach":
        interfaces.attach(ana, uuid, InterfaceCreate(network_id=network()))
    else:
        interfaces.detach(ana, uuid, instance_of(uuid).addresses[0]["port_uuid"])
    instances.delete(ana, uuid)
    run_to_the_end(hosts)
    assert Port.objects.count() == before["ports"]
    assert not ResourceLock.objects.using("default").exists()


def test_no_run_queues_behind_one_that_waits_for_an_operator(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    run_uuid = interfaces.attach(ana, uuid, InterfaceCreate(network_id=network())).run_uuid
    WorkflowRun.objects.using(CELL).filter(uuid=run_uuid).update(state=RunState.NEEDS_OPERATOR)
    given = given_port(ana)
    ports_before = Port.objects.count()
    for requested in (InterfaceCreate(network_id=network()), InterfaceCreate(port_id=given)):
        with pytest.raises(ResourceLocked, match=run_uuid):
            interfaces.attach(ana, uuid, requested)
    assert Port.objects.count() == ports_before
    assert Port.objects.get(uuid=given).device_id == ""


def test_deleting_a_plugged_port_takes_it_from_its_server(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid = launch()
    port_id = given_port(ana)
    interfaces.attach(ana, uuid, InterfaceCreate(port_id=port_id))
    run_to_the_end(hosts)
    interfaces.delete_port(ana, port_id)
    run_to_the_end(hosts)
    assert_unplugged(hosts, uuid, port_id)
    assert not Port.objects.filter(uuid=port_id).exists()


class Died(BaseException):
    """The web process ends: nothing of it runs any more."""


@pytest.mark.parametrize("kind", [MADE, GIVEN])
def test_a_port_whose_process_died_before_its_workflow_is_released_with_its_lock(
    hosts: StorageHosts, ana: Any, launch: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    uuid = launch()
    requested = request_of(kind, ana)
    before = taken()

    def die(*_: Any, **__: Any) -> None:
        raise Died

    with monkeypatch.context() as dead:
        dead.setattr(actions, "reach", die)
        dead.setattr(actions.locks, "free_cross_database", die)
        dead.setattr(ports, "unplug_one", die)
        with pytest.raises(Died):
            interfaces.attach(ana, uuid, requested)
    (lock,) = ResourceLock.objects.using("default").filter(resource__startswith="port:")
    port = Port.objects.get(uuid=lock.resource.partition(":")[2])
    assert port.device_id == uuid
    instances.delete(ana, uuid)
    run_to_the_end(hosts)
    assert storage_cleanup.settle_ports() == 0  # its workflow may still be opened
    ResourceLock.objects.using("default").update(granted_at=database_now(-2 * locks.ARRIVAL_SECONDS))
    assert locks.sweep(CELL) == 1
    assert storage_cleanup.settle_ports() == 1
    assert Port.objects.filter(device_id=uuid).count() == 0
    assert Port.objects.filter(pk=port.pk).exists() == (kind == GIVEN)
    assert taken()["ports"] == before["ports"] - 1  # the server's own


def test_a_port_is_locked_as_soon_as_it_is_bound_and_as_long_as_it_is_not_plugged(
    hosts: StorageHosts, ana: Any, launch: Any
) -> None:
    """So the cleanup needs no time limit to tell a port in use from one that is left."""
    uuid = launch()
    for kind in (MADE, GIVEN):
        interfaces.attach(ana, uuid, request_of(kind, ana))
        assert len(ports.not_plugged_yet()) == 1
        assert storage_cleanup.settle_ports() == 0
        run_to_the_end(hosts)
        assert ports.not_plugged_yet() == []


def test_a_refused_second_attach_of_a_port_leaves_it_to_the_first(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    uuid, other, port_id = launch(), launch(), given_port(ana)
    interfaces.attach(ana, uuid, InterfaceCreate(port_id=port_id))
    bound = Port.objects.filter(uuid=port_id).values().get()
    for server in (uuid, other):
        with pytest.raises(Conflict):
            interfaces.attach(ana, server, InterfaceCreate(port_id=port_id))
    assert Port.objects.filter(uuid=port_id).values().get() == bound


def test_a_port_given_at_launch_is_locked_until_the_server_runs(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    port_id = given_port(ana)
    held = []
    answer = hosts.answer

    def watching(alias: str, command: Any) -> bool:
        held.extend(ResourceLock.objects.using("default").filter(resource=f"port:{port_id}"))
        with pytest.raises(ResourceLocked):
            interfaces.delete_port(ana, port_id)
        return answer(alias, command)

    hosts.answer = watching  # type: ignore[method-assign]
    uuid = launch(networks=(NetworkRequest(port_id=port_id),))
    assert [(lock.holder_alias, str(lock.holder_uuid)) for lock in held] == [
        (CELL, str(run_of(uuid, "build_in_cell").uuid))
    ]
    assert instance_of(uuid).vm_state == VmState.ACTIVE
    assert_nothing_under_way(uuid)


def test_one_port_is_for_one_server(hosts: StorageHosts, ana: Any, launch: Any) -> None:
    port_id = given_port(ana)
    with pytest.raises(Invalid, match="one server"):
        launch(networks=(NetworkRequest(port_id=port_id),), min_count=2, max_count=2)
    assert (Instance.objects.using(CELL).count(), Port.objects.get().device_id) == (0, "")
