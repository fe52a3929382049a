"""The rules that ports get from their security groups, as text; test_host_net.py gives them to a kernel."""

from __future__ import annotations

import re
from dataclasses import replace
from ipaddress import IPv4Address, ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compute_drivers.host_net import dhcp, rules
from compute_drivers.host_net.host_ports import HostPort
from compute_drivers.host_net.rules import NetNames, ruleset
from compute_drivers.host_net.security_groups import match_of
from conductor.core.compute_driver import NetworkPort, PortAddress
from conductor.core.errors import BuildAborted
from conductor.core.port_filters import EGRESS, INGRESS, AddressPair, FilterRule, PortFilter

NAMES = NetNames("novella_0000", "nt0000", "nb0000", "nm0000")
MAC, ADDRESS = "fa:16:3e:00:00:01", "10.64.0.3"
PLUG = HostPort("nt0000aaaaaaaa", "nb0000aaaaaaaa", MAC, ADDRESS, PortFilter())
GROUPS = ("web", "db")


def chain(text: str, name: str) -> list[str]:
    found = re.search(rf"  chain {name} {{\n(.*?)\n  }}", text, re.DOTALL)
    assert found, f"no chain {name} in {text}"
    return [line.strip() for line in found[1].splitlines()]


def passes(lines: list[str], packet: dict[str, Any]) -> bool:
    """Return whether the kernel accepts a packet of a new connection, by the rules' syntax that we use."""
    for line in lines:
        *words, verdict = line.split(" ")
        if _is_met(" ".join(words), packet):
            return verdict == "return"
    raise AssertionError("a chain that does not end")


def _is_met(words: str, packet: dict[str, Any]) -> bool:
    rest = words
    for pattern, is_met in (
        (r"ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00 ether daddr != \{ (.*?) \}", lambda _: False),
        (r"ether type (\w+)", lambda found: found == ("ip" if packet["with"].version == 4 else "ip6")),
        (r"icmpv6 type \{ (nd-neighbor-\w+, nd-neighbor-\w+) \}", lambda _: False),
        (r"meta mark & \w+ == (\w+)", lambda _: False),
        (r"ip6? [sd]addr \{ (.*?) \}", lambda found: any(packet["with"] in ip_network(n) for n in found.split(", "))),
        (r"(?:ip protocol|meta l4proto) (\d+)", lambda found: packet["protocol"] == int(found)),
        (r"th dport ([\d-]+)", lambda found: _within(packet["port"], found)),
        (r"icmp(?:v6)? type (\d+)", lambda found: packet["type"] == int(found)),
        (r"icmp(?:v6)? code (\d+)", lambda found: packet["code"] == int(found)),
    ):
        found = re.match(pattern, rest)
        if found:
            if not is_met(found[1]):
                return False
            rest = rest[found.end() :].lstrip()
    assert not rest, f"unknown words: {rest!r}"
    return True


def _within(port: int, bounds: str) -> bool:
    low, high = map(int, bounds.split("-"))
    return low <= port <= high


def lets(rule: FilterRule, packet: dict[str, Any], members: dict[str, list[str]]) -> bool:
    """Return whether a rule allows the packet, by the network API's definition."""
    if rule.ethertype != f"IPv{packet['with'].version}":
        return False
    if rule.remote_group and str(packet["with"]) not in members.get(rule.remote_group, []):
        return False
    if rule.remote_prefix and packet["with"] not in ip_network(rule.remote_prefix, strict=False):
        return False
    numbers = {"": packet["protocol"], "icmp": 1 if rule.ethertype == "IPv4" else 58, "tcp": 6, "udp": 17, "47": 47}
    if numbers[rule.protocol] != packet["protocol"]:
        return False
    if rule.protocol == "icmp":
        return rule.low in (None, packet["type"]) and rule.high in (None, packet["code"])
    if rule.protocol in ("tcp", "udp") and rule.low is not None:
        return packet["port"] in range(rule.low, (rule.low if rule.high is None else rule.high) + 1)
    return True


ADDRESSES = st.builds("{}{}".format, st.sampled_from(["10.64.0.", "fd00::"]), st.integers(1, 9))
PREFIXES = st.sampled_from(
    ["", "0.0.0.0/0", "10.64.0.0/30", "10.64.0.5/32", "10.64.0.6/20", "::/0", "fd00::/126", "fd00::6/64"]
)


@st.composite
def filter_rules(draw: st.DrawFn) -> FilterRule:
    protocol = draw(st.sampled_from(["", "icmp", "tcp", "udp", "47"]))
    low = draw(st.none() | st.integers(0, 6)) if protocol else None
    high = draw(st.none() | st.integers(low, 9)) if low is not None else None
    group = draw(st.sampled_from(["", *GROUPS]))
    return FilterRule(
        draw(st.sampled_from([INGRESS, EGRESS])),
        draw(st.sampled_from(["IPv4", "IPv4", "IPv6"])),
        protocol,
        low,
        high,
        "" if group else draw(PREFIXES),
        group,
    )


FILTERS = st.builds(
    PortFilter,
    groups=st.lists(st.sampled_from(GROUPS), unique=True).map(tuple),
    rules=st.lists(filter_rules()).map(tuple),
)
PACKETS = st.fixed_dictionaries(
    {
        "with": ADDRESSES.map(ip_address),
        "protocol": st.sampled_from([1, 6, 17, 47, 58]),
        "port": st.integers(0, 10),
        "type": st.integers(0, 10),
        "code": st.integers(0, 10),
    }
)


@settings(max_examples=25, deadline=None)
@given(FILTERS, st.lists(st.tuples(ADDRESSES, FILTERS), max_size=3), PACKETS, st.sampled_from([INGRESS, EGRESS]))
def test_a_packet_passes_when_a_rule_of_the_port_lets_it_and_only_then(
    own: PortFilter, others: list[tuple[str, PortFilter]], packet: dict[str, Any], direction: str
) -> None:
    plugs = [replace(PLUG, filter=own, more=("fd00::3",))]
    for number, (address, found) in enumerate(others):
        plugs.append(replace(PLUG, device=f"nt0000bbbbbbb{number}", ip_address=address, filter=found))
    # A member of the same group with the same address, in another network, is not allowed here.
    far = HostPort("nt0000cccccccc", "nb0000cccccccc", MAC, "10.64.0.12", PortFilter(groups=GROUPS))
    members = {
        name: [address for plug in plugs if name in plug.filter.groups for address in (plug.ip_address, *plug.more)]
        for name in GROUPS
    }
    text = ruleset(NAMES, [*plugs, far])
    expected = any(lets(rule, packet, members) for rule in own.rules if rule.direction == direction)
    name = f"{'in' if direction == INGRESS else 'out'}-{PLUG.device}"
    assert passes(chain(text, name), packet) == expected
    assert text == ruleset(NAMES, [far, *reversed(plugs)]), "the order in which ports came says nothing"


def test_nothing_passes_without_rules_and_all_without_port_security() -> None:
    text = ruleset(NAMES, [PLUG])
    packet = {"with": IPv4Address("10.64.0.9"), "protocol": 6, "port": 22, "type": 0, "code": 0}
    assert not passes(chain(text, f"in-{PLUG.device}"), packet)
    assert not passes(chain(text, f"out-{PLUG.device}"), packet)
    text = ruleset(NAMES, [replace(PLUG, filter=PortFilter(is_on=False))])
    for direction in ("in", "out"):
        assert chain(text, f"{direction}-{PLUG.device}") == ["return"]
    anti_spoofing = chain(text, f"spoof-{PLUG.device}")
    assert anti_spoofing[-1] == "return"
    of_services = (
        r"169\.254\.|ip6 saddr fe80::6e:76ff:fe6d:6401 |(nd-router-solicit|dport 547) limit rate over 20|"
        r"ip6 [sd]addr fe80::a9fe:a9fe |nd-neighbor-advert @th,64,128 0xfe8000000000000000000000a9fea9fe drop"
    )
    assert all(re.search(of_services, line) for line in anti_spoofing[:-1])


def test_a_guest_sends_only_from_its_own_and_its_allowed_addresses() -> None:
    pairs = (AddressPair("10.64.0.77"), AddressPair("10.64.8.0/24", "FA:16:3E:00:00:99"), AddressPair("fd00::9"))
    lines = chain(ruleset(NAMES, [replace(PLUG, filter=PortFilter(pairs=pairs))]), f"spoof-{PLUG.device}")
    assert lines[-1] == "drop"
    assert lines.index("ip protocol udp udp sport 67 drop") < lines.index(
        f"ether saddr {MAC} ip saddr 10.64.0.3/32 return"
    )
    for mac, network in ((MAC, "10.64.0.3/32"), (MAC, "10.64.0.77/32"), ("fa:16:3e:00:00:99", "10.64.8.0/24")):
        assert f"ether saddr {mac} ip saddr {network} return" in lines
        assert f"ether saddr {mac} arp saddr ether {mac} arp saddr ip {network} return" in lines
    assert all("ether saddr" in line for line in lines if line.endswith("return"))
    assert "10.64.0.4" not in " ".join(lines)
    further = chain(ruleset(NAMES, [replace(PLUG, more=("10.64.0.4",))]), f"spoof-{PLUG.device}")
    assert f"ether saddr {MAC} ip saddr 10.64.0.4/32 return" in further
    assert "ip daddr 169.254.169.254 ip saddr != { 10.64.0.3/32, 10.64.0.4/32 } drop" in further


def test_a_guest_answers_neighbour_discovery_only_for_its_own_addresses_and_is_no_router() -> None:
    plug = replace(PLUG, more=("fd00::3",), filter=PortFilter(pairs=(AddressPair("fd00:1::/62"), AddressPair("::/0"))))
    lines = chain(ruleset(NAMES, [plug]), f"spoof-{PLUG.device}")
    assert lines.index("icmpv6 type { nd-router-advert, nd-redirect } drop") < min(
        number for number, line in enumerate(lines) if "ip6 saddr" in line and line.endswith("return")
    )
    allowed = [line for line in lines if "nd-neighbor-advert" in line and line.endswith("return")]
    assert [line.partition("nd-neighbor-advert ")[2] for line in allowed] == [
        "@th,64,128 0xfd000000000000000000000000000003 return",
        "@th,64,62 0x3f40000040000000 return",
        "return",
        "@th,64,128 0xfe80000000000000f8163efffe000001 return",
    ]
    assert lines.index("icmpv6 type nd-neighbor-advert drop") > lines.index(allowed[-1])
    plain = chain(ruleset(NAMES, [PLUG]), f"spoof-{PLUG.device}")
    heard = [line for line in plain if line.endswith("return")]
    assert not [line for line in heard if "ip6" in line or "icmpv6" in line], "it has no such address"


def test_a_device_without_rules_passes_nothing_and_other_tables_are_left_alone() -> None:
    text = ruleset(NAMES, [PLUG])
    assert f'iifname "nt0000*" iifname != {{ "{PLUG.device}" }} drop' in chain(text, "come")
    assert f'oifname "nt0000*" oifname != {{ "{PLUG.device}" }} drop' in chain(text, "pass")
    assert 'iifname "nt0000*" drop' in chain(ruleset(NAMES, []), "come")
    assert set(re.findall(r"^(?:delete )?table \w+ (\w+)", text, re.MULTILINE)) == {NAMES.table}
    assert rules.empty_ruleset(NAMES).count("delete table") == 2


@pytest.mark.parametrize(
    ("plug", "words"),
    [
        (replace(PLUG, mac_address='"; flush ruleset'), "no usable MAC address"),
        (replace(PLUG, ip_address="10.64.0.3 accept"), "no usable address"),
    ],
)
def test_a_port_without_an_address_has_no_rules(plug: HostPort, words: str) -> None:
    with pytest.raises(BuildAborted, match=words):
        ruleset(NAMES, [plug])


def test_an_invalid_address_in_a_rule_admits_nothing_and_the_other_rules_apply() -> None:
    wrong = PortFilter(
        rules=(
            FilterRule(INGRESS, remote_prefix="all; accept"),
            FilterRule(INGRESS, remote_prefix="fd00::/8"),
            FilterRule(INGRESS, "IPv6", remote_prefix="10.0.0.0/8"),
            FilterRule(INGRESS, "IPv7"),
        ),
        pairs=(AddressPair("10.64.0.4", "x return"), AddressPair("any return")),
    )
    other = replace(PLUG, device="nt0000bbbbbbbb", filter=PortFilter(rules=(FilterRule(INGRESS),)))
    text = ruleset(NAMES, [replace(PLUG, filter=wrong), other])
    assert text.replace("x return", "") == text
    for name in ("spoof", "in"):
        assert chain(text, f"{name}-{PLUG.device}") == chain(ruleset(NAMES, [PLUG]), f"{name}-{PLUG.device}")
    assert "ether type ip return" in chain(text, f"in-{other.device}")


@pytest.mark.parametrize(
    ("ethertype", "protocol"),
    [("IPv4", "tcp; drop"), ("IPv4", "256"), ("IPv4", "ipv6-icmp"), ("IPv4", "999999999999"), ("IPv6", "ipip")],
)
def test_a_protocol_that_is_none_of_its_version_matches_nothing(ethertype: str, protocol: str) -> None:
    rule = FilterRule(INGRESS, ethertype, protocol=protocol)
    assert match_of(rule, PLUG, [PLUG]) is None


@pytest.mark.parametrize("protocol", ["icmp", "icmpv6", "ipv6-icmp", "58"])
def test_icmp_of_ipv6_has_its_own_number(protocol: str) -> None:
    rule = FilterRule(INGRESS, "IPv6", protocol, 128, 0)
    assert match_of(rule, PLUG, [PLUG]) == "ether type ip6 meta l4proto 58 icmpv6 type 128 icmpv6 code 0"


def test_filters_come_back_from_json_and_newer_fields_are_dropped() -> None:
    allowed = PortFilter(True, GROUPS, (FilterRule(INGRESS, protocol="tcp", low=22),), (AddressPair("10.64.0.77"),))
    data = allowed.to_json()
    assert PortFilter.from_json({**data, "newer": 1, "rules": [{**data["rules"][0], "newer": 1}]}) == allowed


def test_a_dhcp_server_lists_our_ports_and_names_cannot_say_more_than_names() -> None:
    port = NetworkPort(
        "p1", "n", MAC.upper(), ADDRESS, 20, "10.64.0.0/20", "10.64.0.1", ("9.9.9.9", "fd00::1", "1\ndhcp-script=/x")
    )
    bare = NetworkPort("p2", "n", "fa:16:3e:00:00:02", "192.168.7.4", 24, "192.168.7.0/24")
    text = dhcp.configuration(
        "nb0000aaaaaaaa", Path("/x.pid"), [dhcp.Client(port, "web,1\nport=53"), dhcp.Client(bare, "ü")]
    )
    lines = text.splitlines()
    assert f"dhcp-host={MAC},{ADDRESS},web1port53,1d" in lines
    assert "dhcp-host=fa:16:3e:00:00:02,192.168.7.4,guest,1d" in lines
    assert [line for line in lines if line.startswith("port=")] == ["port=0"]
    assert all(",static," in line for line in lines if line.startswith("dhcp-range="))
    assert "dhcp-option=tag:subnet0,option:dns-server,9.9.9.9" in lines
    assert "dhcp-option=tag:subnet1,option:router" in lines


def test_of_a_port_with_several_addresses_dhcp_gives_the_first_of_ipv4_and_of_none_without() -> None:
    six = PortAddress("fd00::3", "fd00::/64")
    both = NetworkPort("p1", "n", MAC, "10.64.0.3", 20, "10.64.0.0/20", more=(PortAddress("10.64.0.4"), six))
    only = NetworkPort("p2", "n", "fa:16:3e:00:00:02", "fd00::4", 64, "fd00::/64")
    text = dhcp.configuration("nb0000aaaaaaaa", Path("/x.pid"), [dhcp.Client(both, "web-1"), dhcp.Client(only, "db-1")])
    assert [line for line in text.splitlines() if line.startswith("dhcp-host")] == [
        f"dhcp-host={MAC},10.64.0.3,web-1,1d"
    ]
    assert "::" not in text
