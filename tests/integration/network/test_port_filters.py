"""Security group rules on their way to hosts: lost updates are found by the next report."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conductor.cells.lookup import API_ALIAS
from conductor.compute.agent import ComputeAgent
from conductor.compute.hosts import HostConfig
from conductor.core.compute_driver import NodeReport
from conductor.core.errors import DriverError
from conductor.core.port_filters import EGRESS, INGRESS, PORT_FILTERS, AddressPair, FilterRule, PortFilter, fingerprint
from conductor.network import security_groups
from conductor.network.models import Port
from conductor.network.port_filtering import filters_of
from conductor.network.security_groups import SecurityGroupRuleCreate
from conductor.rpc import broker
from conductor.rpc.messages import HostReported
from conductor.services.networks import port_filters
from conductor.services.servers.types import NetworkRequest
from tests.counting import counted
from tests.fixtures.ports import make_network, make_port, plug, resolve, unplug
from tests.tiny_driver import TinyDriver
from tests.waiting import WAIT_SECONDS, wait_until


class Filtering(TinyDriver):
    """Applies rules by remembering them."""

    filters_ports = True
    filters: Mapping[str, PortFilter] = {}
    is_broken = False

    def report(self) -> NodeReport:
        return replace(super().report(), capabilities={PORT_FILTERS: fingerprint(self.filters)})

    def filter_ports(self, filters: Mapping[str, PortFilter]) -> None:
        if self.is_broken:
            raise DriverError("the kernel refused")
        self.filters = filters


@dataclass
class Host:
    """An agent with one host, and its reports to the conductor, which a test answers."""

    driver: Filtering
    reports: queue.Queue[HostReported]

    def settle(self) -> None:
        """Answer its reports until one confirms the wanted rules."""
        wait_until("the rules are applied", self._confirms, details=lambda: self.driver.filters)

    def _confirms(self) -> bool:
        report = self.reports.get(timeout=WAIT_SECONDS)
        while not self.reports.empty():
            report = self.reports.get()
        port_filters.settle(report)
        return bool(report.report["capabilities"][PORT_FILTERS] == fingerprint(filters_of("host-1")))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    drivers: list[Filtering] = []
    reports: queue.Queue[HostReported] = queue.Queue()

    class Made(Filtering):
        def start(self) -> None:
            drivers.append(self)

    def hear(_: str, message: Any) -> None:
        if isinstance(message, HostReported):
            reports.put(message)

    config = HostConfig(host="host-1", cell="cell1", driver="made", journal_path=tmp_path / "journal.sqlite3")
    agent = ComputeAgent([config], {"made": Made}, lambda _: None, 0.05, send=hear)  # type: ignore[arg-type, return-value]
    monkeypatch.setattr(broker, "send_to_compute", lambda _, body: agent.receive(json.loads(json.dumps(body))))
    agent.start()
    reports.get(timeout=WAIT_SECONDS)
    yield Host(drivers[0], reports)
    agent.stop()


@pytest.fixture
def plugged(people: Any) -> Port:
    """Ana's port at host-1, in her default group."""
    network_id = make_network(people.ana)
    plug(people.ana, resolve(people.ana, NetworkRequest(port_id=make_port(people.ana, network_id))), str(uuid4()))
    return Port.objects.get(is_plugged=True)


def test_a_host_has_the_rules_of_its_ports_soon_after_they_are_made_changed_and_gone(
    people: Any, host: Host, plugged: Port
) -> None:
    port, group = str(plugged.uuid), str(plugged.security_groups.get().uuid)
    host.settle()
    mates = FilterRule(INGRESS, remote_group=group)
    assert set(host.driver.filters) == {port}
    assert host.driver.filters[port].groups == (group,)
    assert {mates, FilterRule(EGRESS)} <= set(host.driver.filters[port].rules)
    requested = SecurityGroupRuleCreate(
        INGRESS, protocol="tcp", port_range_min=22, port_range_max=22, remote_ip_prefix="192.0.2.0/24"
    )
    rule = security_groups.create_rule(people.ana.context(), replace(requested, group_id=group))
    host.settle()
    ssh = FilterRule(INGRESS, protocol="tcp", low=22, high=22, remote_prefix="192.0.2.0/24")
    assert ssh in host.driver.filters[port].rules
    security_groups.delete_rule(people.ana.context(), str(rule.uuid))
    host.settle()
    assert ssh not in host.driver.filters[port].rules
    unplug(plugged.device_id)
    host.settle()
    assert host.driver.filters == {}


def test_a_host_that_failed_to_apply_them_gets_them_again(host: Host, plugged: Port, caplog: Any) -> None:
    host.driver.is_broken = True
    port_filters.settle(host.reports.get(timeout=WAIT_SECONDS))
    wait_until("the failure is logged", lambda: "the kernel refused" in caplog.text)
    assert host.driver.filters == {}
    host.driver.is_broken = False
    host.settle()
    assert set(host.driver.filters) == {str(plugged.uuid)}


def test_a_host_that_has_them_and_one_that_applies_none_get_no_command(
    plugged: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(broker, "send_to_compute", lambda queue, body: sent.append((queue, body)))
    report = HostReported(
        host="host-1", cell="cell1", driver="made", is_simulated=False, service_version=8, report_number=1,
        availability_zone="nova", report={"capabilities": {}}, guests={},
    )  # fmt: skip
    port_filters.settle(report)
    has = {"capabilities": {PORT_FILTERS: fingerprint(filters_of("host-1"))}}
    port_filters.settle(replace(report, report=has))
    assert sent == []
    port_filters.settle(replace(report, host="host-2", report=has))
    ((_, body),) = sent
    assert body["body"] == {"host": "host-2", "filters": {}}


def test_allowed_address_pairs_and_the_switch_are_sent_too(people: Any, plugged: Port) -> None:
    Port.objects.update(is_port_security_enabled=False, address_pairs=[{"ip_address": "10.0.0.9", "mac_address": "m"}])
    plugged.security_groups.clear()
    own = plugged.addresses.get().ip_address
    pairs = (AddressPair(own), AddressPair("10.0.0.9", "m"))
    assert filters_of("host-1") == {str(plugged.uuid): PortFilter(is_on=False, pairs=pairs)}
    network_id = str(plugged.network.uuid)
    with counted(API_ALIAS) as few:
        filters_of("host-1")
    for _ in range(3):
        requested = NetworkRequest(port_id=make_port(people.ana, network_id))
        plug(people.ana, resolve(people.ana, requested), str(uuid4()))
    with counted(API_ALIAS) as many:
        assert len(filters_of("host-1")) == 4
    assert len(many.statements) <= len(few.statements) + 2, "however many ports there are"
    with counted(API_ALIAS) as none:
        assert filters_of("host-2") == {}
    assert len(none.statements) == 1
