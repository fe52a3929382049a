"""Sub-resources of a server, and actions on its addresses."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from uuid import uuid4

import pytest

from conductor.cell_db.models import ComputeNode, Instance
from conductor.cell_db.models import ConsoleAddress as ConsoleAddress
from conductor.compute.console_relay import ConsoleRelay, RelayAddress
from conductor.core.compute_driver import CAPABILITIES
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import NotSupported, NovellaError, Unavailable
from conductor.core.guest_questions import GuestQuestion
from conductor.core.states import PowerState
from conductor.journal.models import AuditRecord, WorkflowRun
from conductor.network import floating_ips, ports
from conductor.network.floating_ips import FloatingIpCreate
from conductor.network.models import AddressAllocation, Network, Router, Subnet
from conductor.placement.models import Consumer, HardwareClaim, ResourceProvider
from tests.integration.page_clients import signed_in

SERVER = "/compute/v2.1/servers/{}"
GUEST = {
    "emulator_policy": None,
    "cells": [
        {"id": 3, "cpus": [2], "pcpus": [0, 1], "memory_mb": 64, "page_size_kb": 2048, "cpu_policy": "mixed"}
        | {"thread_policy": None, "pins": [[0, 8], [1, 9]], "reserved": []}
    ],
}
FIGURES = {
    "cpus": [{"id": 0, "time": 17}],
    "memory": {"maximum": 128, "used": 64},
    "disks": [{"read_bytes": 512}],
    "nics": [{"mac_address": "fa:16:3e:00:00:01", "rx_octets": 5, "addresses": ["10.64.0.3", "192.0.2.7"]}],
    "hypervisor_os": "linux",
}


@pytest.fixture
def web(kept: dict[str, str]) -> str:
    return SERVER.format(kept["web"])


@pytest.fixture
def plugged(kept: dict[str, str], cloud: Any) -> str:
    """The address that the server `web` has on the shared network."""
    row = Instance.objects.using("cell1").get(uuid=kept["web"])
    reported = ports.plug(
        instance_uuid=str(row.uuid),
        project_id=row.project_id,
        networks=[{"network_id": kept["network"], "port_id": "", "fixed_ip": "", "tag": "front"}],
        binding=ports.Binding("sim-1-01", "compute:az-1"),
    )
    Instance.objects.using("cell1").filter(pk=row.pk).update(addresses=reported)
    return str(reported[0]["ip_address"])


def refusal(answer: Any) -> str:
    (fault,) = answer.json().values()
    return str(fault["message"])


def test_diagnostics_are_for_operators_and_have_every_member(web: str, api_client: Any) -> None:
    shown = api_client("admin", version="2.48").get(f"{web}/diagnostics").json()
    assert (shown["state"], shown["driver"], shown["hypervisor"]) == ("running", "libvirt", "fake")
    assert (shown["num_cpus"], shown["num_nics"], shown["num_disks"]) == (1, 1, 1)
    assert shown["memory_details"] == {"maximum": 128, "used": None}
    assert shown["nic_details"][0]["mac_address"] == "fa:16:3e:00:00:01"
    assert len(shown["disk_details"]) == 1
    assert api_client("admin", version="2.47").get(f"{web}/diagnostics").json() == {"memory": 131072, "vcpus": 1}
    assert api_client("ana", version="2.48").get(f"{web}/diagnostics").status_code == 403


def test_a_server_that_is_off_has_no_diagnostics(web: str, kept: dict[str, str], api_client: Any) -> None:
    Instance.objects.using("cell1").filter(uuid=kept["web"]).update(power_state=PowerState.SHUTDOWN)
    answer = api_client("admin", version="2.48").get(f"{web}/diagnostics")
    assert (answer.status_code, "power state shutdown" in refusal(answer)) == (409, True)
    broken = api_client("admin").get(SERVER.format(kept["broken"]) + "/diagnostics")
    assert (broken.status_code, "no host" in refusal(broken)) == (409, True)
    assert api_client("admin").get(SERVER.format(kept["nothing"]) + "/diagnostics").status_code == 404


def test_a_topology_shows_the_host_to_operators_alone(web: str, kept: dict[str, str], api_client: Any) -> None:
    path = f"{web}/topology"
    assert api_client("ana", version="2.78").get(path).json() == {"nodes": [], "pagesize_kb": None}
    provider = ResourceProvider.objects.create(uuid=uuid4(), name="sim-1-01")
    consumer = Consumer.objects.create(uuid=kept["web"], project_id=kept["project"], user_id="ana")
    HardwareClaim.objects.create(consumer=consumer, provider=provider, grant={"numa": GUEST, "devices": []})
    node = {"memory_mb": 64, "vcpu_set": [0, 1, 2], "siblings": []}
    assert api_client("ana", version="2.78").get(path).json() == {"nodes": [node], "pagesize_kb": 2048}
    (seen,) = api_client("admin", version="2.78").get(path).json()["nodes"]
    assert seen == {**node, "host_node": 3, "cpu_pinning": {"0": 8, "1": 9}}
    assert api_client("ana", version="2.77").get(path).status_code == 404


class Answering:
    """A host that answers diagnostics requests through its real actor, with the test's data."""

    def __init__(self) -> None:
        self.password = ""
        self.error: NovellaError | None = None
        self.asked: list[tuple[str, str, GuestQuestion]] = []

    def answer(self, host: str, instance_uuid: str, question: GuestQuestion) -> dict[str, Any]:
        self.asked.append((host, instance_uuid, question))
        if self.error is not None:
            raise self.error
        if question is GuestQuestion.FORGET_PASSWORD:
            self.password = ""
        return FIGURES if question is GuestQuestion.DIAGNOSTICS else {"password": self.password}


def no_console(host: str, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
    raise NotSupported(f"Host {host} has no consoles.")


@pytest.fixture
def answering(web: str) -> Iterator[Answering]:
    """The host of the server `web`."""
    found = Answering()
    node = ComputeNode.objects.using("cell1").get(host="sim-1-01")
    node.report["capabilities"]["actions"] = sorted(CAPABILITIES)
    node.save(using="cell1")
    opened = ConsoleRelay(RelayAddress("127.0.0.1", 0, "127.0.0.1"), no_console, found.answer)
    opened.start()
    assert opened.announcement is not None
    ConsoleAddress.objects.using("cell1").filter(host="sim-1-01").update(**asdict(opened.announcement))
    yield found
    opened.stop()


def test_diagnostics_are_what_the_host_counted(web: str, answering: Answering, api_client: Any) -> None:
    shown = api_client("admin", version="2.48").get(f"{web}/diagnostics").json()
    assert answering.asked == [("sim-1-01", web.rpartition("/")[2], GuestQuestion.DIAGNOSTICS)]
    assert shown["cpu_details"] == [{"id": 0, "time": 17, "utilisation": None}]
    assert shown["memory_details"] == {"maximum": 128, "used": 64}
    assert (shown["num_disks"], shown["hypervisor_os"]) == (1, "linux")
    assert shown["disk_details"][0] | {"read_bytes": 512, "write_bytes": None} == shown["disk_details"][0]
    assert shown["nic_details"][0] | {"rx_octets": 5, "tx_octets": None} == shown["nic_details"][0]
    assert "addresses" not in shown["nic_details"][0], "that form is fixed"
    free = api_client("admin", version="2.47").get(f"{web}/diagnostics").json()
    assert free["addresses"] == {"fa:16:3e:00:00:01": ["10.64.0.3", "192.0.2.7"]}


def test_the_metrics_of_a_server_are_shown_to_its_project(kept: dict[str, str], answering: Answering) -> None:
    path = f"/servers/{kept['web']}"
    page = signed_in("ana").get(f"{path}/metrics").content.decode()
    assert f'data-metrics="{path}/figures"' in page
    assert ("64 MB / 128 MB" in page, "5 B received, 0 B sent" in page, "512 B read" in page) == (True, True, True)
    reported = signed_in("rea").get(f"{path}/figures").json()
    assert reported.pop("at") > 0
    counted = {"cpu_seconds": 17e-9, "vcpus": 1, "memory_mb": 64, "memory_limit_mb": 128}
    assert reported == {**counted, "read_bytes": 512, "received_bytes": 5}
    assert signed_in("chi").get(f"{path}/figures").status_code == 404
    answering.error = Unavailable("The hypervisor is not open.")
    assert "host doesn&#x27;t report metrics" in signed_in("ana").get(f"{path}/metrics").content.decode()
    Instance.objects.using("cell1").filter(uuid=kept["web"]).update(power_state=PowerState.SHUTDOWN)
    assert signed_in("ana").get(f"{path}/figures").json()["why_none"] == "Start the server to see metrics."


@pytest.mark.parametrize("trouble", ["refuses", "is another", "is gone"])
def test_an_unresponsive_host_is_reported_beside_what_the_cell_knows(
    trouble: str, web: str, answering: Answering, api_client: Any
) -> None:
    address = ConsoleAddress.objects.using("cell1").filter(host="sim-1-01")
    if trouble == "refuses":
        answering.error = Unavailable("The hypervisor is not open.")
    elif trouble == "is another":
        address.update(fingerprint="0" * 64)
    else:
        address.update(tcp_port=1)
    shown = api_client("admin", version="2.48").get(f"{web}/diagnostics").json()
    assert (shown["state"], shown["memory_details"]) == ("running", {"maximum": 128, "used": None})
    refused = api_client("ana").get(f"{web}/os-server-password")
    fields = {"refuses": "is not open", "is another": "is not that host", "is gone": "can't be reached"}[trouble]
    assert (refused.status_code, fields in refusal(refused)) == (503, True)
    assert (len(answering.asked) == 2) is (trouble == "refuses")


def test_the_password_that_the_guest_posted_is_returned_until_it_is_cleared(
    web: str, answering: Answering, api_client: Any
) -> None:
    path = f"{web}/os-server-password"
    answering.password = "sealed for ana"
    assert api_client("rea").get(path).json() == {"password": "sealed for ana"}
    assert api_client("rea").delete(path).status_code == 403
    assert api_client("chi").get(path).status_code == 404
    assert api_client("ana").delete(path).status_code == 204
    assert api_client("ana").get(path).json() == {"password": ""}
    assert [question for _, _, question in answering.asked] == ["password", "forget_password", "password"]


def test_the_password_is_empty_and_forgotten(web: str, kept: dict[str, str], api_client: Any) -> None:
    path = f"{web}/os-server-password"
    assert api_client("ana").get(path).json() == {"password": ""}
    assert api_client("ana").delete(path).status_code == 204
    assert api_client("rea").delete(path).status_code == 403
    foreign = SERVER.format(kept["foreign"]) + "/os-server-password"
    assert api_client("ana").get(foreign).status_code == 404


def test_there_are_no_shares(web: str, api_client: Any) -> None:
    client = api_client("ana", version="2.97")
    assert client.get(f"{web}/shares").json() == {"shares": []}
    missing = client.post(f"{web}/shares", {"share": {"share_id": str(uuid4())}})
    assert (missing.status_code, "could not be found" in refusal(missing)) == (404, True)
    assert client.post(f"{web}/shares", {"share": {"share_id": "x"}}).status_code == 400
    assert client.delete(f"{web}/shares/{uuid4()}").status_code == 404
    assert api_client("ana", version="2.96").get(f"{web}/shares").status_code == 404


def test_security_groups_of_a_server_show_their_ingress_rules(web: str, plugged: str, api_client: Any) -> None:
    (group,) = api_client("ana").get(f"{web}/os-security-groups").json()["security_groups"]
    assert (group["name"], len(group["rules"])) == ("default", 2)
    assert group["rules"][0]["group"]["name"] == "default"
    assert group["rules"][0]["ip_range"] == {}


def test_ports_of_a_launch_have_the_tags_that_were_requested(web: str, plugged: str, api_client: Any) -> None:
    (shown,) = api_client("ana", version="2.70").get(f"{web}/os-interface").json()["interfaceAttachments"]
    assert shown["tag"] == "front"


def test_adding_and_removing_a_fixed_ip(web: str, plugged: str, kept: dict[str, str], api_client: Any) -> None:
    client = api_client("ana", version="2.43")
    assert client.post(f"{web}/action", {"addFixedIp": {"networkId": kept["network"]}}).status_code == 202
    shown = client.get(f"{web}/ips").json()["addresses"]["private"]
    assert (len(shown), shown[0]["addr"]) == (2, plugged)
    assert client.post(f"{web}/action", {"removeFixedIp": {"address": plugged}}).status_code == 202
    assert client.get(f"{web}/ips").json()["addresses"]["private"] == [shown[1]]
    assert [row.action for row in WorkflowRun.objects.using("cell1").order_by("pk")] == ["addFixedIp", "removeFixedIp"]


def test_the_number_of_addresses_of_a_port_is_limited(
    web: str, plugged: str, kept: dict[str, str], api_client: Any
) -> None:
    """Otherwise one port could take all addresses of its subnet, one action after another."""
    client, body = api_client("ana", version="2.43"), {"addFixedIp": {"networkId": kept["network"]}}
    assert [client.post(f"{web}/action", body).status_code for _ in range(4)] == [202] * 4
    refused = client.post(f"{web}/action", body)
    assert (refused.status_code, "5 addresses" in refusal(refused)) == (400, True), refused.content
    assert AddressAllocation.objects.filter(port__device_id=web.rpartition("/")[2]).count() == 5


REFUSED: list[tuple[str, Any, int, str]] = [
    ("2.43", {"addFixedIp": {"networkId": "99999999-9999-9999-9999-999999999999"}}, 400, "Network not found"),
    ("2.43", {"addFixedIp": {}}, 400, "'networkId' is a required property"),
    ("2.43", {"removeFixedIp": {"address": "192.0.2.1"}}, 400, "could not be found"),
    ("2.43", {"removeFixedIp": {"address": "x"}}, 400, "removeFixedIp.address"),
    ("2.44", {"addFixedIp": {"networkId": "$network"}}, 400, "no such action"),
    ("2.1", {"resetNetwork": None}, 403, "Policy"),
]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused_actions_change_no_address(
    case: Any, web: str, plugged: str, kept: dict[str, str], api_client: Any
) -> None:
    version, body, status, says = case
    if "networkId" in str(body):
        body["addFixedIp"]["networkId"] = body["addFixedIp"]["networkId"].replace("$network", kept["network"])
    before = list(AddressAllocation.objects.values_list("ip_address", flat=True))
    answer = api_client("ana", version=version).post(f"{web}/action", body)
    assert (answer.status_code, says in refusal(answer)) == (status, True), answer.content
    assert list(AddressAllocation.objects.values_list("ip_address", flat=True)) == before
    assert not WorkflowRun.objects.using("cell1").exists()


def test_a_floating_ip_is_attached_to_a_server_and_detached(
    web: str, plugged: str, kept: dict[str, str], cloud: Any, api_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = api_client("ana", version="2.43")
    port = client.get(f"{web}/os-interface").json()["interfaceAttachments"][0]["port_id"]
    outer = Network.objects.filter(is_external=True).first()
    assert outer is not None
    row = floating_ips.create_floating_ip(cloud.people.ana.context(), FloatingIpCreate(network_id=str(outer.uuid)))
    # The network service decides whether a router leads there.
    router = Router.objects.create(project_id=row.project_id, created_at=row.created_at, updated_at=row.updated_at)
    monkeypatch.setattr(floating_ips, "_router_between", lambda network, subnet: router)
    assert client.post(f"{web}/action", {"addFloatingIp": {"address": "192.0.2.77"}}).status_code == 404
    odd = client.post(f"{web}/action", {"addFloatingIp": {"address": row.address, "fixed_address": "192.0.2.1"}})
    assert (odd.status_code, "not assigned" in refusal(odd)) == (400, True)
    assert client.post(f"{web}/action", {"removeFloatingIp": {"address": row.address}}).status_code == 409
    assert client.post(f"{web}/action", {"addFloatingIp": {"address": row.address}}).status_code == 202
    shown = client.get(web).json()["server"]["addresses"]["private"]
    assert [(one["addr"], one["OS-EXT-IPS:type"]) for one in shown] == [(plugged, "fixed"), (row.address, "floating")]
    assert str(floating_ips.get_floating_ip(cloud.people.ana.context(), str(row.uuid)).port.uuid) == port
    assert client.post(f"{web}/action", {"removeFloatingIp": {"address": row.address}}).status_code == 202
    assert len(client.get(web).json()["server"]["addresses"]["private"]) == 1
    newer = api_client("ana", version="2.44").post(f"{web}/action", {"addFloatingIp": {"address": row.address}})
    assert newer.status_code == 400
    reported = AuditRecord.objects.filter(result="done", instance_uuid=kept["web"]).order_by("created_at")
    assert [one.action for one in reported] == ["server.addFloatingIp", "server.removeFloatingIp"]


@pytest.mark.parametrize(
    "values",
    [{"is_locked": True}, {"vm_state": "rescued"}, {"task_state": "pausing"}],
)
def test_addresses_are_left_alone_in_other_states(
    values: Any, web: str, plugged: str, kept: dict[str, str], api_client: Any
) -> None:
    Instance.objects.using("cell1").filter(uuid=kept["web"]).update(**values)
    answer = api_client("ana").post(f"{web}/action", {"addFixedIp": {"networkId": kept["network"]}})
    says = "is locked" if "is_locked" in values else " ".join(*values.items())
    assert (answer.status_code, says in refusal(answer)) == (409, True)
    assert AddressAllocation.objects.count() == 1


def test_all_addresses_of_a_port_are_shown(web: str, kept: dict[str, str], plugged: str, api_client: Any) -> None:
    subnet = Subnet.objects.first()
    assert subnet is not None
    port = ports.plugged(kept["web"])[0]
    AddressAllocation.objects.create(subnet=subnet, port=port, ip_address="10.64.9.9", number=f"{0x0A400909:032x}")
    assert len(api_client("ana").get(f"{web}/ips").json()["addresses"]["private"]) == 1
    assert api_client("admin").post(f"{web}/action", {"injectNetworkInfo": None}).status_code == 202
    listed = api_client("ana").get(f"{web}/ips").json()["addresses"]["private"]
    assert [entry["addr"] for entry in listed] == [plugged, "10.64.9.9"]
    found = api_client("ana", version="2.5").get("/compute/v2.1/servers?ip=10.64.9.9").json()["servers"]
    assert [server["id"] for server in found] == [kept["web"]]
    gone = api_client("admin").post(f"{web}/action", {"resetNetwork": None})
    assert gone.status_code == 410
