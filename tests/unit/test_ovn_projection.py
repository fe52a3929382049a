"""The rows of OVN's northbound database for networks, and the changes to the desired rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.port_filters import EGRESS, INGRESS, IPV6, AddressPair, FilterRule
from conductor.network.ovn.desired import DEFAULT_GROUP, DesiredRows, desired
from conductor.network.ovn.dhcp import server_mac
from conductor.network.ovn.northbound import Northbound, NorthboundBuilder, NorthboundChanges, RowKey, diff
from conductor.network.ovn.topology import (
    BandwidthLimit,
    CloudTopology,
    DhcpOption,
    FixedAddress,
    GatewayHost,
    NetworkSpec,
    PortSpec,
    RouterSpec,
    SubnetSpec,
)
from tests.fixtures.ovn_topologies import (
    BALANCED,
    CLOUD,
    FLOATING,
    GATEWAY,
    GROUP,
    GUEST,
    GUEST_MAC,
    HTTP,
    INNER_MAC,
    INTERFACE,
    NETWORK,
    OUTER_MAC,
    OUTSIDE,
    OUTSIDE_SUBNET,
    ROUTER,
    SUBNET,
    SUBNET_IPV6,
)


def rows_of(table: str, topology: CloudTopology = CLOUD) -> dict[str, Mapping[str, Any]]:
    return {key.key: columns for key, columns in desired(topology).items() if key.table == table}


def port_row(port: PortSpec = GUEST) -> Mapping[str, Any]:
    return rows_of("Logical_Switch_Port", replace(CLOUD, ports=(port,)))[port.uuid]


def ports(*names: str) -> frozenset[RowKey]:
    return frozenset(RowKey("Logical_Switch_Port", name) for name in names)


def test_a_network_is_a_switch_with_its_ports() -> None:
    switch = rows_of("Logical_Switch")["novella-net-1"]

    assert switch["ports"] == ports("port-1", "port-in", "metadata-net-1")
    assert switch["name"] == "novella-net-1"
    assert switch["external_ids"] == {
        "novella:id": "novella-net-1", "novella:name": "private", "novella:rev": "3"
    }  # fmt: skip


def test_a_provider_network_has_a_port_to_its_physical_network_and_no_metadata() -> None:
    assert rows_of("Logical_Switch")["novella-net-x"]["ports"] == ports("physical-net-x", "port-out")
    localnet = rows_of("Logical_Switch_Port")["physical-net-x"]
    assert (localnet["type"], localnet["options"], localnet["tag"]) == (
        "localnet", {"network_name": "physnet1"}, frozenset({7})
    )  # fmt: skip
    assert localnet["addresses"] == {"unknown"}


def test_metadata_is_answered_on_every_host() -> None:
    row = rows_of("Logical_Switch_Port")["metadata-net-1"]

    assert row["type"] == "localport"
    assert row["addresses"] == {"02:6e:76:6d:64:01 169.254.169.254 fe80::a9fe:a9fe"}


def test_a_guests_port_has_its_addresses_and_is_bound_to_its_host() -> None:
    row = port_row()

    assert (row["type"], row["options"], row["enabled"]) == ("", {"requested-chassis": "h1"}, {True})
    assert row["addresses"] == {f"{GUEST_MAC} 10.0.0.11 fd00:a::11"}
    assert row["port_security"] == {f"{GUEST_MAC} 10.0.0.11 fd00:a::11"}
    assert row["external_ids"] == {"novella:id": "port-1", "novella:name": "web", "novella:rev": "5"}


def test_no_host_claims_a_port_without_a_host() -> None:
    assert port_row(replace(GUEST, host=""))["options"] == {"requested-chassis": "-"}


def test_both_hosts_may_claim_the_port_of_a_guest_that_moves_while_it_runs() -> None:
    both = {"requested-chassis": "h1,h2", "activation-strategy": "rarp"}
    assert port_row(replace(GUEST, destination="h2"))["options"] == both
    assert port_row(replace(GUEST, host="", destination="h2"))["options"] == {"requested-chassis": "-"}


def test_address_pairs_are_allowed_by_mac_address() -> None:
    own, other = AddressPair("10.0.0.100", GUEST_MAC), AddressPair("10.0.1.0/24", "fa:16:3e:00:00:99")
    row = port_row(replace(GUEST, pairs=(own, other, AddressPair("10.0.0.11"))))

    assert row["port_security"] == {
        f"{GUEST_MAC} 10.0.0.11 fd00:a::11 10.0.0.100", "fa:16:3e:00:00:99 10.0.1.0/24"
    }  # fmt: skip
    assert row["addresses"] == {f"{GUEST_MAC} 10.0.0.11 fd00:a::11"}


def test_a_port_without_port_security_sends_from_and_receives_for_any_address() -> None:
    unsecured = replace(GUEST, is_port_security_enabled=False, groups=())

    assert port_row(unsecured)["port_security"] == frozenset()
    assert port_row(unsecured)["addresses"] == {f"{GUEST_MAC} 10.0.0.11 fd00:a::11", "unknown"}
    assert rows_of("Port_Group", replace(CLOUD, ports=(unsecured,)))[DEFAULT_GROUP]["ports"] == frozenset()


@pytest.mark.parametrize(
    ("network", "port"), [(NETWORK, replace(GUEST, is_admin_up=False)), (replace(NETWORK, is_admin_up=False), GUEST)]
)
def test_a_port_is_disabled_with_its_network(network: NetworkSpec, port: PortSpec) -> None:
    off = CloudTopology(networks=(network,), subnets=(SUBNET, SUBNET_IPV6), ports=(port,))

    assert rows_of("Logical_Switch_Port", off)["port-1"]["enabled"] == {False}


def test_dhcp_sends_dns_mtu_and_routes() -> None:
    assert port_row()["dhcpv4_options"] == {RowKey("DHCP_Options", "sub-4")}
    row = rows_of("DHCP_Options")["sub-4"]
    assert row["cidr"] == "10.0.0.0/24"
    assert row["options"] == {
        "server_id": "10.0.0.1",
        "server_mac": server_mac("sub-4"),
        "lease_time": "86400",
        "mtu": "1400",
        "domain_name": '"lab.test"',
        "router": "10.0.0.1",
        "dns_server": "{10.0.0.2}",
        "classless_static_route": "{169.254.169.254/32,0.0.0.0, 192.0.2.0/24,10.0.0.9, 0.0.0.0/0,10.0.0.1}",
    }


def test_dhcp_names_the_gateway_where_a_subnet_has_no_dns_server() -> None:
    alone = replace(SUBNET, dns_nameservers=("fd00::53",))
    options = rows_of("DHCP_Options", replace(CLOUD, subnets=(alone, SUBNET_IPV6, OUTSIDE_SUBNET)))["sub-4"]["options"]

    assert options["dns_server"] == "{10.0.0.1}"


def test_dhcp_without_a_gateway_has_no_default_route() -> None:
    alone = replace(SUBNET, gateway_ip="", dns_nameservers=(), host_routes=())
    options = rows_of("DHCP_Options", replace(CLOUD, subnets=(alone, SUBNET_IPV6, OUTSIDE_SUBNET)))["sub-4"]["options"]

    assert options["classless_static_route"] == "{169.254.169.254/32,0.0.0.0}"
    assert options["server_id"] == "169.254.67.67"
    assert options.keys().isdisjoint({"router", "dns_server"})


@pytest.mark.parametrize(
    ("mode", "more"), [("dhcpv6-stateful", {}), ("dhcpv6-stateless", {"dhcpv6_stateless": "true"})]
)
def test_dhcpv6(mode: str, more: Mapping[str, str]) -> None:
    subnets = (SUBNET, replace(SUBNET_IPV6, ipv6_mode=mode), OUTSIDE_SUBNET)

    found = rows_of("DHCP_Options", replace(CLOUD, subnets=subnets))["sub-6"]["options"]

    assert found == {"server_id": server_mac("sub-6"), "dns_server": "{fd00::53}", **more}


def test_no_dhcp_where_it_is_off_or_guests_derive_addresses() -> None:
    subnets = (replace(SUBNET, is_dhcp_enabled=False), replace(SUBNET_IPV6, ipv6_mode="slaac"), OUTSIDE_SUBNET)
    topology = replace(CLOUD, subnets=subnets)

    assert rows_of("DHCP_Options", topology) == {}
    assert rows_of("Logical_Switch_Port", topology)["port-1"]["dhcpv4_options"] == frozenset()


def test_a_port_has_options_of_its_own() -> None:
    own = (DhcpOption("mtu", "1300"), DhcpOption("domain-name", 'a"b'), DhcpOption("ntp-server", "10.0.0.3,10.0.0.4"))
    topology = replace(CLOUD, ports=(replace(GUEST, dhcp_options=own),))

    assert rows_of("Logical_Switch_Port", topology)["port-1"]["dhcpv4_options"] == {
        RowKey("DHCP_Options", "sub-4:port-1")
    }
    options = rows_of("DHCP_Options", topology)["sub-4:port-1"]["options"]
    assert options == rows_of("DHCP_Options")["sub-4"]["options"] | {
        "mtu": "1300", "domain_name": '"a\\"b"', "ntp_server": "{10.0.0.3, 10.0.0.4}"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mtu", "70000"),
        ("mtu", "1300; drop"),
        ("mtu", "²"),
        ("ntp-server", "10.0.0.3} evil {"),
        ("ntp-server", "fd00::1"),
        ("domain-name", "lab\nshop"),
        ("router", "10.0.0.0/8"),
    ],
)
def test_an_option_that_ovn_cannot_parse_is_left_out(name: str, value: str) -> None:
    topology = replace(CLOUD, ports=(replace(GUEST, dhcp_options=(DhcpOption(name, value),)),))

    options = rows_of("DHCP_Options", topology)["sub-4:port-1"]["options"]

    assert options == rows_of("DHCP_Options")["sub-4"]["options"]


def test_an_unknown_option_changes_nothing() -> None:
    topology = replace(CLOUD, ports=(replace(GUEST, dhcp_options=(DhcpOption("210", "/boot"),)),))

    assert rows_of("Logical_Switch_Port", topology)["port-1"]["dhcpv4_options"] == {RowKey("DHCP_Options", "sub-4")}


def test_a_ports_bandwidth_is_limited_by_direction() -> None:
    limits = (BandwidthLimit("egress", 1000), BandwidthLimit("ingress", 2000, 300))
    topology = replace(CLOUD, ports=(replace(GUEST, limits=limits),))

    assert rows_of("Logical_Switch", topology)["novella-net-1"]["qos_rules"] == {
        RowKey("QoS", "port-1:egress"), RowKey("QoS", "port-1:ingress")
    }  # fmt: skip
    sent, received = (rows_of("QoS", topology)[f"port-1:{way}"] for way in ("egress", "ingress"))
    assert (sent["direction"], sent["match"], sent["bandwidth"]) == (
        "from-lport", 'inport == "port-1"', {"rate": 1000}
    )  # fmt: skip
    assert (received["direction"], received["match"], received["bandwidth"]) == (
        "to-lport", 'outport == "port-1"', {"rate": 2000, "burst": 300}
    )  # fmt: skip


def test_a_port_has_its_name_alone_in_the_domain_and_in_reverse() -> None:
    assert rows_of("Logical_Switch")["novella-net-1"]["dns_records"] == {RowKey("DNS", "net-1")}
    assert rows_of("DNS")["net-1"]["records"] == {
        "web-1": "10.0.0.11 fd00:a::11",
        "web-1.lab.test": "10.0.0.11 fd00:a::11",
        "11.0.0.10.in-addr.arpa": "web-1.lab.test",
        ip_address("fd00:a::11").reverse_pointer: "web-1.lab.test",
    }


def test_a_network_without_names_has_no_records() -> None:
    topology = replace(CLOUD, ports=(replace(GUEST, dns_name=""), replace(GUEST, uuid="port-2", addresses=())))

    assert rows_of("DNS", topology) == {}
    assert rows_of("Logical_Switch", topology)["novella-net-1"]["dns_records"] == frozenset()


@pytest.mark.parametrize(
    ("projects", "addresses"),
    [
        (("lab", "lab"), "10.0.0.11 10.0.0.12"),
        (("shop", "shop"), "10.0.0.11 10.0.0.12"),
        (("shop", "lab"), "10.0.0.12"),
        (("shop", "other"), None),
    ],
)
def test_a_project_cannot_take_over_the_name_of_another(projects: tuple[str, str], addresses: str | None) -> None:
    named = (
        replace(GUEST, uuid=f"port-{number}", project=project, addresses=(FixedAddress("sub-4", f"10.0.0.1{number}"),))
        for number, project in enumerate(projects, 1)
    )
    records = rows_of("DNS", replace(CLOUD, ports=tuple(named))).get("net-1", {"records": {}})["records"]

    assert records.get("web-1") == addresses


def test_every_port_with_port_security_is_in_the_default_group_that_drops() -> None:
    group = rows_of("Port_Group")[DEFAULT_GROUP]

    assert group["ports"] == ports("port-1")
    entries = {rows_of("ACL")[key.key]["match"]: rows_of("ACL")[key.key] for key in group["acls"]}
    drops = {match for match, entry in entries.items() if entry["action"] == "drop"}
    assert drops == {f"inport == @{DEFAULT_GROUP} && ip", f"outport == @{DEFAULT_GROUP} && ip"}
    assert f"inport == @{DEFAULT_GROUP} && ip4 && udp && udp.src == 68 && udp.dst == 67" in entries


def test_a_security_group_is_a_port_group_with_its_rules() -> None:
    group = rows_of("Port_Group")["pg_sg_1"]

    assert (group["ports"], group["acls"]) == (ports("port-1"), {RowKey("ACL", "rule-1")})
    row = rows_of("ACL")["rule-1"]
    assert (row["direction"], row["priority"], row["action"], row["match"]) == (
        "to-lport", 1002, "allow-related", "outport == @pg_sg_1 && ip4 && tcp && tcp.dst == 80"
    )  # fmt: skip


def test_rules_of_a_stateless_group_keep_no_connections() -> None:
    topology = replace(CLOUD, security_groups=(replace(GROUP, is_stateful=False),))

    assert rows_of("ACL", topology)["rule-1"]["action"] == "allow-stateless"


@pytest.mark.parametrize(
    ("rule", "match"),
    [
        (FilterRule(EGRESS), "inport == @pg_sg_1 && ip4"),
        (FilterRule(EGRESS, IPV6), "inport == @pg_sg_1 && ip6"),
        (FilterRule(INGRESS, remote_prefix="0.0.0.0/0"), "outport == @pg_sg_1 && ip4"),
        (FilterRule(INGRESS, remote_prefix="10.0.0.0/8"), "outport == @pg_sg_1 && ip4 && ip4.src == 10.0.0.0/8"),
        (FilterRule(EGRESS, remote_prefix="10.0.0.0/8"), "inport == @pg_sg_1 && ip4 && ip4.dst == 10.0.0.0/8"),
        (FilterRule(INGRESS, IPV6, remote_group="sg-2"), "outport == @pg_sg_1 && ip6 && ip6.src == $pg_sg_2_ip6"),
        (
            FilterRule(INGRESS, protocol="17", low=5, high=9),
            "outport == @pg_sg_1 && ip4 && udp && udp.dst >= 5 && udp.dst <= 9",
        ),
        (
            FilterRule(INGRESS, protocol="icmp", low=8, high=0),
            "outport == @pg_sg_1 && ip4 && icmp4 && icmp4.type == 8 && icmp4.code == 0",
        ),
        (FilterRule(INGRESS, IPV6, "icmp"), "outport == @pg_sg_1 && ip6 && icmp6"),
        (FilterRule(INGRESS, protocol="vrrp"), "outport == @pg_sg_1 && ip4 && ip.proto == 112"),
        (FilterRule(INGRESS, protocol="udplite"), "outport == @pg_sg_1 && ip4 && ip.proto == 136"),
    ],
)
def test_the_match_of_a_rule(rule: FilterRule, match: str) -> None:
    topology = replace(CLOUD, security_groups=(replace(GROUP, rules={"rule-1": rule}),))

    assert rows_of("ACL", topology)["rule-1"]["match"] == match


@pytest.mark.parametrize(
    "rule",
    [
        FilterRule(INGRESS, protocol="udplite", low=1, high=2),  # OVN knows no ports of it
        FilterRule(INGRESS, protocol="icmpv6"),  # no protocol of IPv4
        FilterRule(INGRESS, protocol="no-such"),
        FilterRule(INGRESS, protocol="256"),
        FilterRule(INGRESS, protocol="tcp", low=9, high=5),
        FilterRule(INGRESS, "ARP"),
    ],
)
def test_a_rule_that_ovn_cannot_match_allows_nothing(rule: FilterRule) -> None:
    topology = replace(CLOUD, security_groups=(replace(GROUP, rules={"rule-1": rule}),))

    assert "rule-1" not in rows_of("ACL", topology)


def test_a_router_has_ports_routes_and_address_translation() -> None:
    router = rows_of("Logical_Router")["novella-r-1"]

    assert router["enabled"] == {True}
    assert {key.key for key in router["ports"]} == {"lrp-port-in", "lrp-port-out"}
    assert {(nat["type"], nat["external_ip"], nat["logical_ip"]) for nat in rows_of("NAT").values()} == {
        ("snat", "198.51.100.10", "10.0.0.0/24"),
        ("dnat_and_snat", "198.51.100.21", "10.0.0.11"),
    }
    assert {key.key for key in router["nat"]} == rows_of("NAT").keys()
    routes = rows_of("Logical_Router_Static_Route")
    assert {(one["ip_prefix"], one["nexthop"], one["output_port"]) for one in routes.values()} == {
        ("172.16.0.0/12", "10.0.0.9", frozenset()),
        ("0.0.0.0/0", "198.51.100.1", frozenset({"lrp-port-out"})),
    }
    assert {key.key for key in router["static_routes"]} == routes.keys()


def test_a_routers_port_has_an_end_on_the_switch_and_one_on_the_router() -> None:
    inner, outer = (rows_of("Logical_Router_Port")[f"lrp-port-{end}"] for end in ("in", "out"))

    assert (inner["mac"], inner["networks"]) == (INNER_MAC, {"10.0.0.1/24", "fd00:a::1/64"})
    assert inner["ipv6_ra_configs"] == {
        "address_mode": "dhcpv6_stateless", "send_periodic": "true", "mtu": "1400", "rdnss": "fd00::53"
    }  # fmt: skip
    assert inner["ha_chassis_group"] == frozenset()
    assert (outer["mac"], outer["networks"], outer["options"]) == (OUTER_MAC, {"198.51.100.10/24"}, {})
    switch_end = rows_of("Logical_Switch_Port")
    assert switch_end["port-in"]["options"] == {"router-port": "lrp-port-in"}
    assert switch_end["port-out"]["options"] == {"router-port": "lrp-port-out", "nat-addresses": "router"}
    assert {switch_end[name]["type"] for name in ("port-in", "port-out")} == {"router"}


def test_a_gateway_is_on_hosts_with_its_physical_network() -> None:
    (group,) = rows_of("Logical_Router_Port")["lrp-port-out"]["ha_chassis_group"]

    assert [
        rows_of("HA_Chassis")[key.key]["chassis_name"] for key in rows_of(group.table)[group.key]["ha_chassis"]
    ] == ["h3"]


def test_routers_prefer_different_gateway_hosts() -> None:
    hosts = tuple(GatewayHost(f"h{number}", ("physnet1",)) for number in range(8))
    firsts = set()
    for number in range(20):
        name = f"r-{number}"
        gateway, router = replace(GATEWAY, device_id=name), replace(ROUTER, uuid=name)
        members = rows_of("HA_Chassis", replace(CLOUD, ports=(gateway,), routers=(router,), gateway_hosts=hosts))
        assert sorted(member["priority"] for member in members.values()) == [1, 2, 3, 4, 5]
        firsts.add(max(members.values(), key=lambda member: member["priority"])["chassis_name"])

    assert len(firsts) > 3


def test_a_router_without_snat_or_gateway_translates_nothing() -> None:
    def nat_of(router: RouterSpec) -> set[str]:
        rows = rows_of("NAT", replace(CLOUD, routers=(router,), floating_ips=()))
        return {row["type"] for row in rows.values()}

    assert nat_of(replace(ROUTER, is_snat_enabled=False)) == set()
    assert nat_of(replace(ROUTER, gateway_port="")) == set()


def test_a_users_default_route_replaces_the_gateways() -> None:
    router = replace(ROUTER, routes=(("0.0.0.0/0", "10.0.0.9"),))
    routes = rows_of("Logical_Router_Static_Route", replace(CLOUD, routers=(router,)))

    assert [(one["ip_prefix"], one["nexthop"]) for one in routes.values()] == [("0.0.0.0/0", "10.0.0.9")]


def test_packets_larger_than_the_mtu_outside_are_reported_to_the_sender() -> None:
    topology = replace(CLOUD, networks=(replace(NETWORK, mtu=9000), OUTSIDE))

    assert rows_of("Logical_Router_Port", topology)["lrp-port-out"]["options"] == {"gateway_mtu": "1500"}


def test_a_physical_networks_traffic_is_routed_at_the_gateway() -> None:
    topology = replace(CLOUD, networks=(replace(NETWORK, physical_network="physnet1"), OUTSIDE))

    row = rows_of("Logical_Router_Port", topology)["lrp-port-in"]

    assert row["options"] == {"reside-on-redirect-chassis": "true"}


def test_a_floating_address_has_no_port_on_a_switch() -> None:
    outer = PortSpec("port-f", "net-x", "fa:16:3e:00:00:77", device_owner="network:floatingip", device_id="f-1")

    assert "port-f" not in rows_of("Logical_Switch_Port", replace(CLOUD, ports=(*CLOUD.ports, outer)))


def test_a_port_of_a_deleted_router_is_left_out() -> None:
    assert "port-in" not in rows_of("Logical_Switch_Port", replace(CLOUD, routers=(), floating_ips=()))


def test_unknown_columns_are_refused() -> None:
    with pytest.raises(KeyError, match="Port_Group"):
        NorthboundBuilder().add("Port_Group", "pg", tag=frozenset({1}))


def applied(changes: NorthboundChanges, present: Northbound) -> Northbound:
    rest = {key: columns for key, columns in present.items() if key not in changes.deleted}
    changed = {key: {**rest[key], **columns} for key, columns in changes.updated.items()}
    return {**rest, **changed, **changes.created}


TOPOLOGIES = st.builds(
    lambda groups, guests, routers, pairs: replace(
        CLOUD,
        ports=(*(replace(GUEST, pairs=pairs) for _ in range(guests)), INTERFACE, GATEWAY),
        security_groups=(GROUP,) * groups,
        routers=(ROUTER,) * routers,
        floating_ips=(FLOATING,) * routers,
    ),
    *(st.integers(0, 1) for _ in range(3)),
    st.sampled_from([(), (AddressPair("10.0.0.100"),)]),
)


@given(TOPOLOGIES, TOPOLOGIES)
def test_changes_turn_any_rows_into_the_desired_rows(before: CloudTopology, after: CloudTopology) -> None:
    present, wanted = desired(before), desired(after)
    changes = diff(present, wanted)

    assert applied(changes, present) == wanted
    assert bool(changes) == (present != wanted)
    assert all(present[key][name] != value for key, row in changes.updated.items() for name, value in row.items())


def cloud_of(hosts: Mapping[int, str], members: set[int], mtu: int, is_routed: bool, rules: set[int]) -> CloudTopology:
    """A cloud with two networks, guests on the first or on both, and what differs between passes."""
    second = NetworkSpec("net-2", "second", project="lab", mtu=mtu)
    subnet = SubnetSpec("sub-2", "net-2", "10.2.0.0/24", gateway_ip="10.2.0.1")
    guests = tuple(
        PortSpec(
            f"guest-{number}",
            ("net-1", "net-2")[number % 2],
            f"fa:16:3e:00:01:0{number}",
            dns_name=f"guest-{number % 3}",
            host=host,
            addresses=(FixedAddress(("sub-4", "sub-2")[number % 2], f"10.{number % 2 * 2}.0.2{number}"),),
            groups=("sg-1",) if number in members else (),
            dhcp_options=(DhcpOption("mtu", "1300"),) if number == 3 else (),
        )
        for number, host in hosts.items()
    )
    return replace(
        BALANCED,
        networks=(replace(NETWORK, mtu=mtu), OUTSIDE, second),
        subnets=(*BALANCED.subnets, subnet),
        ports=(*BALANCED.ports, *guests),
        routers=BALANCED.routers if is_routed else (),
        security_groups=(replace(GROUP, rules={f"rule-{number}": HTTP for number in rules}),),
    )


CLOUDS = st.builds(
    cloud_of,
    st.dictionaries(st.integers(1, 5), st.sampled_from(["", "h1", "h2"])),
    st.sets(st.integers(1, 5)),
    st.sampled_from([1400, 1442]),
    st.booleans(),
    st.sets(st.integers(1, 3)),
)


@given(st.lists(CLOUDS, min_size=1, max_size=6))
def test_rows_of_one_topology_after_another_are_those_of_each_alone(clouds: list[CloudTopology]) -> None:
    rows, before = DesiredRows(), {}

    for cloud in clouds:
        found = rows.of(cloud)
        assert found == desired(cloud)
        assert applied(diff(before, found), before) == found
        before = found


@given(CLOUDS, CLOUDS)
def test_rows_that_were_returned_stay_as_they_were(first: CloudTopology, second: CloudTopology) -> None:
    rows = DesiredRows()

    returned = rows.of(first)
    rows.of(second)

    assert returned == desired(first)
