"""The packets that OVN passes, by the verdicts of its own tracer, for every kind of security group rule.

Each rule has a guest of its own, whose only group has only this rule. All of them talk with one peer.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import product
from pathlib import Path

from ovs.unixctl.client import UnixctlClient

from conductor.core import ip_protocols
from conductor.core.port_filters import EGRESS, INGRESS, IPV4, IPV6, AddressPair, FilterRule
from conductor.network.ovn.database import NorthboundDatabase
from conductor.network.ovn.desired import METADATA_MAC, desired, metadata_port_name, switch_name
from conductor.network.ovn.dhcp import OWN_OPTIONS
from conductor.network.ovn.topology import (
    CloudTopology,
    DhcpOption,
    FixedAddress,
    NetworkSpec,
    PortSpec,
    SecurityGroupSpec,
    SubnetSpec,
)
from tests.fixtures.ovn_topologies import CLOUD, GUEST
from tests.services import ovn

NETWORK = NetworkSpec("net")
SUBNETS = (SubnetSpec("v4", "net", "10.0.0.0/8", is_dhcp_enabled=False), SubnetSpec("v6", "net", "fd00::/64"))
PEERS, OTHERS = "peers", "others"  # the group of the peer, and one without members
PEER = {IPV4: "10.200.0.1", IPV6: "fd00::c8:1"}
ROUTABLE = (EGRESS, INGRESS)
TCP, UDP, SCTP = 6, 17, 132
ICMP = {IPV4: 1, IPV6: 58}

PORT_RANGES = ((None, None), (1, 1), (80, 90), (1, 65535), (65535, 65535))
ICMP_TYPES = ((None, None), (8, None), (8, 0), (128, 3), (255, 255), (0, None))
REMOTES = {
    IPV4: ("0.0.0.0/0", "10.0.0.0/8", "10.200.0.1/32", "192.0.2.0/24"),
    IPV6: ("::/0", "fd00::/64", "fd00::c8:1/128", "2001:db8::/32"),
}


@dataclass(frozen=True)
class Packet:
    """The first packet of a connection between a guest and the peer. ICMP has its type and code as ports."""

    direction: str
    ethertype: str
    protocol: int
    port: int = 0
    code: int = 0


def legal_rules() -> list[FilterRule]:
    """Return rules of every direction, version, protocol, range and kind of peer that the API accepts."""
    rules: list[FilterRule] = []
    for direction, ethertype in product((INGRESS, EGRESS), (IPV4, IPV6)):
        numbers = ("0", "1", "6", "17", "58", "89", "132", "136", "255")
        for protocol in ("", *ip_protocols.NUMBERS[ethertype], *numbers):
            number = ip_protocols.number_of(protocol, ethertype) if protocol else None
            ranges = PORT_RANGES if number in ip_protocols.WITH_PORTS else PORT_RANGES[:1]
            ranges = ICMP_TYPES if number == ICMP[ethertype] else ranges
            rules += [FilterRule(direction, ethertype, protocol, low, high) for low, high in ranges]
        for protocol, low, high in (("", None, None), ("tcp", 80, 90)):
            rule = FilterRule(direction, ethertype, protocol, low, high)
            rules += [replace(rule, remote_prefix=prefix) for prefix in REMOTES[ethertype]]
            rules += [replace(rule, remote_group=group) for group in (PEERS, OTHERS)]
    return rules


def packets_for(rule: FilterRule) -> set[Packet]:
    """Return a packet that the rule matches, and others that differ from it in one value."""
    number = ip_protocols.number_of(rule.protocol, rule.ethertype) if rule.protocol else TCP
    assert number is not None
    low, high = rule.low or 0, rule.high or rule.low or 0
    if number == ICMP[rule.ethertype]:
        about = Packet(rule.direction, rule.ethertype, number, low or 8, rule.high or 0)
        near = {replace(about, port=(about.port + 1) % 100 + 1), replace(about, code=(about.code + 1) % 256)}
    else:
        about = Packet(rule.direction, rule.ethertype, number, low or 80)
        ports = {high + 1, low - 1} if low and number in (TCP, UDP, SCTP) else set()
        near = {replace(about, port=port) for port in ports if 0 < port <= ip_protocols.MAX_PORT}
    turned = EGRESS if rule.direction == INGRESS else INGRESS
    return {about, *near, replace(about, direction=turned), replace(about, protocol=UDP if number != UDP else TCP)}


def allows(rule: FilterRule, packet: Packet) -> bool:
    """Whether a rule allows a packet, by the definition of the API."""
    if (rule.direction, rule.ethertype) != (packet.direction, packet.ethertype):
        return False
    if rule.remote_prefix and ip_address(PEER[packet.ethertype]) not in ip_network(rule.remote_prefix):
        return False
    if rule.remote_group and rule.remote_group != PEERS:
        return False
    if rule.protocol and ip_protocols.number_of(rule.protocol, rule.ethertype) != packet.protocol:
        return False
    if rule.low is None:
        return True
    if packet.protocol == ICMP[packet.ethertype]:
        return rule.low == packet.port and rule.high in (None, packet.code)
    # OVN knows the ports of these only: a range of another protocol allows nothing.
    return packet.protocol in (TCP, UDP, SCTP) and rule.low <= packet.port <= (rule.high or rule.low)


def guest(number: int, group: str, **values: object) -> PortSpec:
    addresses = (
        FixedAddress("v4", str(IPv4Address("10.0.0.1") + number)),
        FixedAddress("v6", str(IPv6Address("fd00::1") + number)),
    )
    spec = PortSpec(f"guest-{number}", "net", mac_of(number), addresses=addresses, groups=(group,))
    return replace(spec, **values)  # type: ignore[arg-type]


def mac_of(number: int) -> str:
    return f"fa:16:3e:00:{number // 256:02x}:{number % 256:02x}"


PEER_PORT = guest(
    0xFFFF, PEERS, uuid="peer", addresses=(FixedAddress("v4", PEER[IPV4]), FixedAddress("v6", PEER[IPV6]))
)
OPEN = {f"open-{direction}-{kind}": FilterRule(direction, kind) for direction in ROUTABLE for kind in (IPV4, IPV6)}


# A value for each option that a port may have, by the API's name.
OWN_VALUES = {
    4: {
        "arp-timeout": "60", "bootfile-name": 'pxe "0"', "default-ttl": "64", "dns-server": "10.0.0.2,10.0.0.3",
        "domain-name": "cloud.test", "hostname": "web-1", "lease-time": "600", "log-server": "10.0.0.2",
        "lpr-server": "10.0.0.2", "mtu": "1300", "netbios-ns": "10.0.0.2", "nis-server": "10.0.0.2",
        "ntp-server": "{10.0.0.2, 10.0.0.3}", "path-prefix": "/boot", "router": "10.0.0.254",
        "server-ip-address": "10.0.0.2", "T1": "300", "T2": "500", "tcp-keepalive": "60", "tcp-ttl": "64",
        "tftp-server": "boot.test", "wpad": "http://10.0.0.2/wpad",
    },
    6: {"dns-server": "fd00::2,fd00::3", "domain-search": "cloud.test"},
}  # fmt: skip


class Tracer:
    """OVN's tracer, with the current logical flows of northd."""

    def __init__(self, client: UnixctlClient, log: Path) -> None:
        self._client = client
        self._log = log

    def delivers(self, inport: str, outport: str, match: str) -> bool:
        """Whether a packet from `inport` that matches reaches `outport`."""
        words = ["--minimal", switch_name(NETWORK.uuid), f'inport == "{inport}" && {match}']
        status, error, output = self._client.transact("trace", words)
        assert (status, error) == (0, None), error
        return f'output("{outport}")' in output

    def passes(self, port: PortSpec, packet: Packet) -> bool:
        """Whether a packet goes from a guest to the peer, or the other way for ingress."""
        source, target = (PEER_PORT, port) if packet.direction == INGRESS else (port, PEER_PORT)
        return self.delivers(source.uuid, target.uuid, _microflow(source, target, packet))

    def traced(self, match: str) -> str:
        """Return the tracer's output about a packet in the network."""
        status, error, output = self._client.transact(
            "trace", ["--summary", switch_name(CLOUD.networks[0].uuid), match]
        )
        assert (status, error) == (0, None), error
        return str(output)

    def warnings(self) -> list[str]:
        """Return the matches that the tracer could not parse. OVN accepts any match without a message."""
        return [line for line in self._log.read_text().splitlines() if "WARN" in line or "|ERR|" in line]


def _microflow(source: PortSpec, target: PortSpec, packet: Packet) -> str:
    ip, index = ("ip4", 0) if packet.ethertype == IPV4 else ("ip6", 1)
    parts = [
        f"eth.src == {source.mac_address} && eth.dst == {target.mac_address} && ip.ttl == 64",
        f"{ip}.src == {source.addresses[index].ip_address} && {ip}.dst == {target.addresses[index].ip_address}",
        f"ip.proto == {packet.protocol}",
    ]
    name = {TCP: "tcp", UDP: "udp", SCTP: "sctp"}.get(packet.protocol)
    if name:
        parts.append(f"{name}.dst == {packet.port}")
    elif packet.protocol == ICMP[packet.ethertype]:
        icmp = "icmp4" if packet.ethertype == IPV4 else "icmp6"
        parts.append(f"{icmp}.type == {packet.port} && {icmp}.code == {packet.code}")
    return " && ".join(parts)


@contextmanager
def traced(lab: ovn.Lab, ports: Sequence[PortSpec], groups: Sequence[SecurityGroupSpec]) -> Iterator[Tracer]:
    """Write a network with these ports besides the peer, and yield a tracer for it."""
    peers = SecurityGroupSpec(PEERS, rules=OPEN)
    everything = CloudTopology(
        networks=(NETWORK,),
        subnets=SUBNETS,
        ports=(PEER_PORT, *ports),
        security_groups=(peers, SecurityGroupSpec(OTHERS), *groups),
    )
    database = NorthboundDatabase(lab.central.nb_remote)
    database.write(desired(everything))
    database.close()
    with tracer(lab) as made:
        yield made


@contextmanager
def tracer(lab: ovn.Lab) -> Iterator[Tracer]:
    lab.nb("--wait=sb", "sync")
    control, log = lab.folder / "trace.ctl", lab.folder / "trace.log"
    log.unlink(missing_ok=True)
    # The tracer uses each `--ct` once. Every connection of the test is new.
    words = [f"--db={lab.central.sb_remote}", f"--unixctl={control}", f"--log-file={log}", *["--ct=new"] * 20_000]
    subprocess.run(["ovn-trace", "-vconsole:off", "--detach", "--no-chdir", *words], check=True)
    error, client = UnixctlClient.create(str(control))
    assert not error
    try:
        yield Tracer(client, log)
    finally:
        client.transact("exit", [])
        client.close()


def test_every_rule_allows_its_packets_and_no_others(lab: ovn.Lab) -> None:
    rules = legal_rules()
    groups = [
        SecurityGroupSpec(f"group-{number}", is_stateful=number % 5 != 0, rules={f"rule-{number}": rule})
        for number, rule in enumerate(rules)
    ]
    ports = [guest(number, group.uuid) for number, group in enumerate(groups)]
    with traced(lab, ports, groups) as tracer:
        wrong = [
            (rule, packet)
            for rule, port in zip(rules, ports, strict=True)
            for packet in packets_for(rule)
            if tracer.passes(port, packet) != allows(rule, packet)
        ]
        assert (tracer.warnings(), wrong) == ([], [])


def test_a_guest_without_rules_reaches_only_its_metadata(lab: ovn.Lab) -> None:
    port = guest(1, OTHERS)
    metadata = replace(PEER_PORT, mac_address=METADATA_MAC, addresses=(FixedAddress("v4", "169.254.169.254"),))
    with traced(lab, [port], []) as tracer:

        def reaches_metadata(tcp_port: int) -> bool:
            flow = _microflow(port, metadata, Packet(EGRESS, IPV4, TCP, tcp_port))
            return tracer.delivers(port.uuid, metadata_port_name(NETWORK.uuid), flow)

        assert reaches_metadata(80)
        assert not reaches_metadata(22)
        assert not any(
            tracer.passes(port, Packet(direction, ethertype, protocol, 80))
            for direction, ethertype, protocol in product(ROUTABLE, (IPV4, IPV6), (TCP, UDP))
        )


def test_a_guest_sends_only_from_its_own_addresses_and_allowed_pairs(lab: ovn.Lab) -> None:
    group = SecurityGroupSpec("group", rules={"rule-4": FilterRule(EGRESS), "rule-6": FilterRule(EGRESS, IPV6)})
    # The tracer compares whole addresses: it knows no ranges here, unlike the hosts.
    pairs = (AddressPair("10.0.7.7"), AddressPair("10.0.8.8", "fa:16:3e:00:99:99"), AddressPair("fd00::7:7"))
    port = guest(1, "group", pairs=pairs)
    unsecured = guest(2, "group", is_port_security_enabled=False)
    packet_ipv4, packet_ipv6 = (Packet(EGRESS, ethertype, TCP, 80) for ethertype in (IPV4, IPV6))

    def sends(tracer: Tracer, sender: PortSpec, address: str, mac_address: str = "") -> bool:
        addresses = (FixedAddress("v4", address), FixedAddress("v6", address))
        source = replace(sender, addresses=addresses, mac_address=mac_address or sender.mac_address)
        packet = packet_ipv6 if ":" in address else packet_ipv4
        return tracer.delivers(sender.uuid, PEER_PORT.uuid, _microflow(source, PEER_PORT, packet))

    with traced(lab, [port, unsecured], [group]) as tracer:
        assert sends(tracer, port, "10.0.0.2")
        assert sends(tracer, port, "fd00::2")
        assert sends(tracer, port, "10.0.7.7")
        assert sends(tracer, port, "fd00::7:7")
        assert sends(tracer, port, "10.0.8.8", "fa:16:3e:00:99:99")
        assert not sends(tracer, port, "10.0.0.3")
        assert not sends(tracer, port, "fd00::3")
        assert not sends(tracer, port, "10.0.8.8")
        assert not sends(tracer, port, "10.0.0.2", "fa:16:3e:00:00:77")
        assert sends(tracer, unsecured, "10.0.0.3", "fa:16:3e:00:00:77")
        assert tracer.warnings() == []


def test_every_option_of_dhcp_and_every_router_is_parsed(lab: ovn.Lab) -> None:
    assert {version: values.keys() for version, values in OWN_VALUES.items()} == {
        version: options.keys() for version, options in OWN_OPTIONS.items()
    }
    own = tuple(
        DhcpOption(name, value, version) for version, values in OWN_VALUES.items() for name, value in values.items()
    )
    with_own = replace(GUEST, uuid="port-2", mac_address="fa:16:3e:00:00:12", dhcp_options=own)
    database = NorthboundDatabase(lab.central.nb_remote)
    database.write(desired(replace(CLOUD, ports=(*CLOUD.ports, with_own))))
    database.close()
    discover = "ip4.src == 0.0.0.0 && ip4.dst == 255.255.255.255 && ip.ttl == 64 && udp.src == 68 && udp.dst == 67"

    with tracer(lab) as made:
        answers = {
            port.uuid: made.traced(f'inport == "{port.uuid}" && eth.src == {port.mac_address} && {discover}')
            for port in (GUEST, with_own)
        }
        assert made.warnings() == []

    assert "mtu = 1400" in answers["port-1"]
    assert "mtu = 1300" in answers["port-2"]
    assert "path_prefix" in answers["port-2"]


def test_the_tracer_reports_a_match_that_ovn_cannot_parse(lab: ovn.Lab) -> None:
    lab.nb("ls-add", "broken", "--", "acl-add", "broken", "to-lport", "1000", "ip4 && no_such_field == 1", "allow")

    with tracer(lab) as made:
        warnings = made.warnings()
    lab.nb("ls-del", "broken")

    assert any("no_such_field" in line for line in warnings)
