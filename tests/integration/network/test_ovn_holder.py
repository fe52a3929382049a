"""The projection into OVN by one conductor at a time: changes are written, and states of ports are read back."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.test import override_settings

from conductor.actors import periodic
from conductor.cells.lookup import API_ALIAS
from conductor.journal.models import PeriodicLease
from conductor.network import operations, port_operations, ports, qos, security_groups, subnets
from conductor.network.models import Port, Subnet
from conductor.network.ovn.errors import DatabaseUnavailable
from conductor.network.ovn.gateways import gateway_hosts_of
from conductor.network.ovn.topology import GatewayHost
from conductor.network.security_groups import SecurityGroupRuleCreate
from conductor.services.networks import ovn_projection
from conductor.services.networks.ovn_projection import OvnProjection
from tests.counting import counted
from tests.fixtures.ports import make_network, make_port, plug
from tests.services import ovn
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("configured")


def switches(lab: ovn.Lab) -> set[str]:
    return set(lab.nb("--bare", "--columns=name", "list", "Logical_Switch").split())


def status(port: str) -> str:
    return Port.objects.get(uuid=port).status


def test_changes_of_the_api_are_written(lab: ovn.Lab, people: Any, projection: OvnProjection) -> None:
    projection.carry_out()
    network = make_network(people.ana)
    port = make_port(people.ana, network)

    projection.carry_out()

    assert f"novella-{network}" in switches(lab)
    assert port in lab.nb("lsp-list", f"novella-{network}")
    group = str(Port.objects.get(uuid=port).security_groups.get().uuid)
    ssh = SecurityGroupRuleCreate("ingress", protocol="tcp", port_range_min=22, port_range_max=22, group_id=group)
    rule = security_groups.create_rule(people.ana.context(), ssh)
    projection.carry_out()
    assert "tcp.dst == 22" in lab.nb("acl-list", f"pg_{group.replace('-', '_')}")
    security_groups.delete_rule(people.ana.context(), str(rule.uuid))
    port_operations.delete_port(people.ana.context(), port)
    projection.carry_out()
    assert "tcp.dst == 22" not in lab.nb("acl-list", f"pg_{group.replace('-', '_')}")
    assert port not in lab.nb("lsp-list", f"novella-{network}")


def test_a_failed_gateway_host_is_replaced_within_the_configured_time(
    lab: ovn.Lab, people: Any, projection: OvnProjection
) -> None:
    with override_settings(NOVELLA_OVN_FAILOVER_MILLISECONDS=1200):
        projection.carry_out()

    options = lab.nb("get", "NB_Global", ".", "options")
    assert 'bfd-min-rx="400", bfd-min-tx="400", bfd-mult="3"' in options


@pytest.mark.parametrize("what", ["network", "subnet", "port", "address", "group", "limit"])
def test_every_change_is_noticed(people: Any, what: str) -> None:
    ana = people.ana.context()
    network = make_network(people.ana)
    port = make_port(people.ana, network)
    subnet = str(Subnet.objects.get(network__uuid=network).uuid)
    slow = str(qos.create_policy(ana, {"name": "slow"}).uuid)
    changes = {
        "limit": lambda: qos.create_limit(ana, slow, {"max_kbps": 1000}),
        "network": lambda: operations.update_network(ana, network, {"name": "new"}),
        "subnet": lambda: subnets.update_subnet(ana, subnet, {"dns_nameservers": ["10.0.0.2"]}),
        "port": lambda: port_operations.update_port(ana, port, {"is_admin_up": False}),
        "address": lambda: port_operations.update_port(ana, port, {"fixed_ips": []}),
        "group": lambda: port_operations.update_port(ana, port, {"security_groups": []}),
    }
    before = ovn_projection.topology_rows.fingerprint()

    changes[what]()

    assert ovn_projection.topology_rows.fingerprint() != before


def test_without_changes_a_pass_only_reads_the_fingerprint(people: Any, projection: OvnProjection) -> None:
    make_port(people.ana, make_network(people.ana))
    projection.carry_out()

    def statements() -> list[str]:
        with counted(API_ALIAS) as found:
            projection.carry_out()
        assert found.transactions == 0
        return [sql for sql in found.statements if "COUNT" not in sql]

    wait_until("northd has seen the port, and nothing is read any more", lambda: statements() == [])


def test_a_conductor_projects_only_if_ovn_is_configured() -> None:
    assert len(periodic.ovn_tickers("conductor-1")) == 1
    with override_settings(NOVELLA_OVN_NORTHBOUND=""):
        assert periodic.ovn_tickers("conductor-1") == []


def test_one_conductor_projects_at_a_time(lab: ovn.Lab, people: Any, projection: OvnProjection) -> None:
    projection.carry_out()
    second = OvnProjection("conductor-2")
    network = make_network(people.ana)

    second.carry_out()

    assert f"novella-{network}" not in switches(lab)
    projection.release()
    second.carry_out()
    assert f"novella-{network}" in switches(lab)
    second.release()


def test_a_conductor_that_lost_its_lease_writes_nothing(lab: ovn.Lab, people: Any, projection: OvnProjection) -> None:
    projection.carry_out()
    PeriodicLease.objects.using(API_ALIAS).filter(name=ovn_projection.LEASE).update(owner="conductor-2")
    network = make_network(people.ana)

    with pytest.raises(ovn_projection.periodic_leases.LeaseLost):
        projection.carry_out()

    assert f"novella-{network}" not in switches(lab)
    projection.carry_out()  # the other one has the lease
    assert f"novella-{network}" not in switches(lab)


def test_without_the_northbound_database_a_conductor_releases_the_lease(
    lab: ovn.Lab, people: Any, projection: OvnProjection
) -> None:
    with override_settings(NOVELLA_OVN_NORTHBOUND=f"unix:{lab.folder}/none.sock"), pytest.raises(DatabaseUnavailable):
        projection.carry_out()

    second = OvnProjection("conductor-2")
    second.carry_out()
    assert PeriodicLease.objects.using(API_ALIAS).get(name=ovn_projection.LEASE).owner == "conductor-2"
    second.release()


def test_a_port_is_active_while_its_host_reports_it_up(lab: ovn.Lab, people: Any, projection: OvnProjection) -> None:
    lab.sb("chassis-add", "h1", "geneve", "172.31.0.11")
    network = make_network(people.ana)
    on_ovn, elsewhere = (make_port(people.ana, network) for _ in range(2))
    guest = str(uuid4())
    plug(people.ana, [{"network_id": network, "port_id": on_ovn}], guest, host="h1")
    plug(people.ana, [{"network_id": network, "port_id": elsewhere}], str(uuid4()), host="simulated-1")

    def is_recorded(wanted: str) -> bool:
        projection.carry_out()
        return status(on_ovn) == wanted

    wait_until("the port is down before its host has bound it", lambda: is_recorded(ports.FREE["status"]))
    lab.sb("wait-until", "Port_Binding", on_ovn, 'type=""')
    lab.sb("lsp-bind", on_ovn, "h1", "--", "set", "Port_Binding", on_ovn, "up=true")
    wait_until("the port is active", lambda: is_recorded("ACTIVE"))
    ports.set_destination(guest, "h2")
    lab.sb("lsp-unbind", on_ovn, "--", "set", "Port_Binding", on_ovn, "up=false")
    lab.nb("wait-until", "Logical_Switch_Port", on_ovn, "up=false")
    projection.carry_out()
    assert status(on_ovn) == "ACTIVE", "its guest is moving"
    ports.set_destination(guest, "")
    wait_until("the port is down again", lambda: is_recorded("DOWN"))
    assert status(elsewhere) == "ACTIVE"
    lab.sb("chassis-del", "h1")


@pytest.mark.parametrize(
    ("chassis", "gateways"),
    [
        ({"h1": {}, "h2": {"ovn-bridge-mappings": "physnet1:br-ex,physnet2:br-b"}}, ["h1", "h2"]),
        ({"h1": {}, "h2": {"ovn-cms-options": "card=1,enable-chassis-as-gw"}}, ["h2"]),
        ({}, []),
    ],
)
def test_gateway_hosts(chassis: dict[str, dict[str, str]], gateways: list[str]) -> None:
    assert [host.name for host in gateway_hosts_of(chassis)] == gateways


def test_the_physical_networks_of_a_gateway() -> None:
    (host,) = gateway_hosts_of({"h1": {"ovn-bridge-mappings": "physnet2:br-b,physnet1:br-ex"}})

    assert host == GatewayHost("h1", ("physnet1", "physnet2"))
