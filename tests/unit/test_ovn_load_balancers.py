"""The rows of OVN's northbound database for load balancers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from conductor.network.ovn.balancer_specs import ListenerSpec, LoadBalancerSpec, MemberSpec
from conductor.network.ovn.balancing import CheckedMember, checked_members
from conductor.network.ovn.desired import desired
from conductor.network.ovn.northbound import RowKey
from conductor.network.ovn.topology import (
    CloudTopology,
    FixedAddress,
    FloatingIpSpec,
    NetworkSpec,
    SubnetSpec,
)
from tests.fixtures.ovn_topologies import BALANCER, CHECKING, CLOUD, ELSEWHERE, HTTP_LISTENER, INTERFACE, POOL, VIP, WEB

# Networks of the same and of another project on the router, and one beside it.
OTHERS = (
    NetworkSpec("net-own", project="shop"),
    NetworkSpec("net-lab", project="lab"),
    NetworkSpec("net-far", project="shop"),
)
INTERFACES = tuple(
    replace(INTERFACE, uuid=f"in-{name}", network=f"net-{name}", mac_address=f"fa:16:3e:00:01:0{number}",
            addresses=(FixedAddress(f"sub-{name}", f"10.0.{number}.1"),))
    for number, name in ((1, "own"), (2, "lab"))
)  # fmt: skip
CLOUD_WITH = replace(
    CLOUD,
    networks=(*CLOUD.networks, *OTHERS),
    subnets=(
        *CLOUD.subnets,
        SubnetSpec("sub-own", "net-own", "10.0.1.0/24"),
        SubnetSpec("sub-lab", "net-lab", "10.0.2.0/24"),
    ),
    ports=(*CLOUD.ports, *INTERFACES, VIP, CHECKING),
    load_balancers=(BALANCER,),
)


def rows_of(table: str, topology: CloudTopology = CLOUD_WITH) -> dict[str, Mapping[str, Any]]:
    return {key.key: columns for key, columns in desired(topology).items() if key.table == table}


def balancer_rows(balancer: LoadBalancerSpec) -> dict[str, Mapping[str, Any]]:
    return rows_of("Load_Balancer", replace(CLOUD_WITH, load_balancers=(balancer,)))


def test_a_load_balancer_has_its_listeners_and_members() -> None:
    (row,) = rows_of("Load_Balancer").values()

    assert row["name"] == "novella-b-1-tcp"
    assert row["vips"] == {"10.0.0.100:80": "10.0.0.11:8080,10.0.0.77:8080"}
    assert row["protocol"] == {"tcp"}
    assert row["options"] == {"neighbor_responder": "none", "reject": "true"}
    assert row["selection_fields"] == {"ip_src", "ip_dst", "tp_src", "tp_dst"}
    assert row["external_ids"] == {"novella:id": "novella-b-1-tcp", "novella:name": "front", "novella:rev": "4"}


def test_members_with_a_port_are_checked_from_an_address_of_their_subnet() -> None:
    (row,) = rows_of("Load_Balancer").values()

    assert row["ip_port_mappings"] == {"10.0.0.11": "port-1:10.0.0.250"}
    assert row["health_check"] == {RowKey("Load_Balancer_Health_Check", "l-1:10.0.0.100")}
    (check,) = rows_of("Load_Balancer_Health_Check").values()
    assert check["vip"] == "10.0.0.100:80"
    assert check["options"] == {"interval": "5", "timeout": "3", "success_count": "2", "failure_count": "4"}
    assert checked_members(CLOUD_WITH) == {"m-1": CheckedMember("port-1", "10.0.0.11", "tcp", 8080)}


def test_without_a_health_monitor_nothing_is_checked() -> None:
    plain = replace(BALANCER, pools=(replace(POOL, check=None),))

    (row,) = balancer_rows(plain).values()

    assert (row["health_check"], row["ip_port_mappings"]) == (frozenset(), {})
    assert checked_members(replace(CLOUD_WITH, load_balancers=(plain,))) == {}


def test_clients_are_on_the_network_of_the_address_and_on_connected_networks_of_the_project() -> None:
    balancer = frozenset({RowKey("Load_Balancer", "novella-b-1-tcp")})

    users = {name for name, row in rows_of("Logical_Switch").items() if row["load_balancer"] == balancer}

    assert users == {"novella-net-1", "novella-net-own"}
    routers = {name: row["load_balancer"] for name, row in rows_of("Logical_Router").items()}
    assert routers == {"novella-r-1": balancer, "novella-b-1": frozenset()}


def test_the_address_belongs_to_its_own_router() -> None:
    router = rows_of("Logical_Router")["novella-b-1"]
    port = rows_of("Logical_Router_Port")["lrp-port-vip"]
    switch_port = rows_of("Logical_Switch_Port")["port-vip"]

    assert router["ports"] == {RowKey("Logical_Router_Port", "lrp-port-vip")}
    assert (port["mac"], port["networks"]) == ("fa:16:3e:00:00:99", {"10.0.0.100/24"})
    assert (switch_port["type"], switch_port["options"]) == ("router", {"router-port": "lrp-port-vip"})
    (route,) = router["static_routes"]
    assert rows_of("Logical_Router_Static_Route")[route.key]["nexthop"] == "10.0.0.1"
    assert "port-hm" not in rows_of("Logical_Switch_Port")


def test_a_floating_ip_of_the_address_is_balanced_too() -> None:
    floating = FloatingIpSpec("f-9", "r-1", "198.51.100.99", "10.0.0.100")

    (row,) = rows_of("Load_Balancer", replace(CLOUD_WITH, floating_ips=(floating,))).values()

    assert row["vips"].keys() == {"10.0.0.100:80", "198.51.100.99:80"}
    assert len(row["health_check"]) == 2


def test_protocols_have_rows_of_their_own() -> None:
    dns = ListenerSpec("l-2", "udp", 53)

    rows = balancer_rows(replace(BALANCER, listeners=(HTTP_LISTENER, dns)))

    assert rows["novella-b-1-udp"]["vips"] == {"10.0.0.100:53": ""}  # without a pool connections are refused
    assert rows["novella-b-1-udp"]["protocol"] == {"udp"}
    assert rows["novella-b-1-tcp"]["vips"].keys() == {"10.0.0.100:80"}


def test_disabled_parts_get_no_connections() -> None:
    def vips(balancer: LoadBalancerSpec) -> Any:
        return [row["vips"] for row in balancer_rows(balancer).values()]

    off = replace(WEB, is_admin_up=False)
    assert vips(replace(BALANCER, is_admin_up=False)) == []
    assert vips(replace(BALANCER, listeners=(replace(HTTP_LISTENER, is_admin_up=False),))) == []
    assert vips(replace(BALANCER, pools=(replace(POOL, is_admin_up=False),))) == [{"10.0.0.100:80": ""}]
    assert vips(replace(BALANCER, pools=(replace(POOL, members=(off, ELSEWHERE)),))) == [
        {"10.0.0.100:80": "10.0.0.77:8080"}
    ]


def test_ipv6_addresses_are_in_brackets() -> None:
    vip = replace(VIP, addresses=(FixedAddress("sub-6", "fd00:a::100"),))
    checking = replace(CHECKING, addresses=(FixedAddress("sub-6", "fd00:a::250"),))
    balancer = replace(
        BALANCER,
        vip_address="fd00:a::100",
        pools=(replace(POOL, members=(MemberSpec("m-6", "fd00:a::11", 8080, "sub-6"),)),),
        monitor_addresses={"sub-6": "fd00:a::250"},
    )
    topology = replace(CLOUD_WITH, ports=(*CLOUD.ports, vip, checking), load_balancers=(balancer,))

    (row,) = rows_of("Load_Balancer", topology).values()

    assert row["vips"] == {"[fd00:a::100]:80": "[fd00:a::11]:8080"}
    assert row["ip_port_mappings"] == {"[fd00:a::11]": "port-1:[fd00:a::250]"}
    assert rows_of("Logical_Router_Port", topology)["lrp-port-vip"]["networks"] == {"fd00:a::100/64"}


def test_a_load_balancer_whose_port_lost_its_address_has_no_rows() -> None:
    gone = replace(CLOUD_WITH, ports=(*CLOUD.ports, replace(VIP, addresses=())))

    assert rows_of("Load_Balancer", gone) == {}
    assert "novella-b-1" not in rows_of("Logical_Router", gone)
