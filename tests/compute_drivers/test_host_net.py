"""Networks in the kernel: real bridges, taps, rules and DHCP servers, in a network namespace of the test's own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from compute_drivers.host_net import rules
from compute_drivers.host_net.dhcp import Client
from compute_drivers.host_net.host_net import HostNet
from compute_drivers.metadata_pages import MetadataPages
from compute_drivers.user_net.shared_metadata import METADATA
from conductor.core.compute_driver import NetworkPort, PortAddress
from conductor.core.errors import BuildAborted, DriverError
from conductor.core.port_filters import EGRESS, INGRESS, AddressPair, FilterRule, PortFilter
from tests.compute_drivers.net_space import Guest, devices, net_space, wait_until_forwarding

NETWORK, OTHER_NETWORK = "6f1b6f2e-net-1", "6f1b6f2e-net-2"
ANA, BO, CHI = (
    NetworkPort(f"port-{name}", "private", f"fa:16:3e:00:00:0{number}", f"10.64.0.{number}", 20, "10.64.0.0/20",
                "10.64.0.1", ("9.9.9.9",), NETWORK)
    for name, number in (("ana", 3), ("bo", 4), ("chi", 5))
)  # fmt: skip
OUT = FilterRule(EGRESS)
PING = FilterRule(INGRESS, protocol="icmp")
SENDS = PortFilter(rules=(OUT,))
OUT6, PING6 = FilterRule(EGRESS, "IPv6"), FilterRule(INGRESS, "IPv6", "icmp", 128)
ANA6, BO6 = (
    replace(port, more=(PortAddress(f"fd00:64::{number}", "fd00:64::/64", ipv6_mode="dhcpv6-stateful"),))
    for port, number in ((ANA, 3), (BO, 4))
)


@pytest.fixture(scope="module")
def space() -> Iterator[str]:
    missing = [package for program, package in (("nft", "nftables"), ("dnsmasq", "dnsmasq-base"), ("ip", "iproute2"))
               if shutil.which(program) is None]  # fmt: skip
    assert not missing, f"the tests of networks need: apt-get install {' '.join(missing)}"
    with net_space() as name:
        yield name


@pytest.fixture
def net(space: str, tmp_path: Path) -> Iterator[HostNet]:
    made = HostNet(tmp_path / "networks")
    made.start(())
    yield made
    made.stop()
    HostNet(tmp_path / "networks").start(())
    assert devices() == []
    assert _rules() == ""


@pytest.fixture
def joined(net: HostNet) -> Iterator[Callable[..., list[Guest]]]:
    """A function that plugs ports and returns a guest on each of them."""
    with ExitStack() as stack:

        def join(*ports: NetworkPort) -> list[Guest]:
            for port in ports:
                net.plug(f"server-of-{port.port_uuid}", [Client(port, "web-1")])
            guests = [Guest(net.device_of(port), port) for port in ports]
            for guest in guests:
                stack.callback(guest.close)
            for port in ports:
                wait_until_forwarding(net.device_of(port))
            return guests

        yield join


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def _rules() -> str:
    return _run("nft", "list", "ruleset")


def test_a_rule_admits_pings_and_their_replies_until_it_is_removed(
    net: HostNet, joined: Callable[..., list[Guest]]
) -> None:
    ana, bo = joined(ANA, BO)
    net.filter({"port-ana": SENDS, "port-bo": PortFilter(rules=(OUT, PING))})
    assert ana.reaches(bo, ana.ping(bo, b"once"))
    assert bo.reaches(ana, bo.pong(ana, b"once"))
    assert not bo.reaches(ana, bo.ping(ana, b"back")), "no rule of ana admits it"
    assert not ana.reaches(bo, ana.udp(bo, 5000, 53, b"else")), "the rule admits pings only"
    net.filter({"port-ana": SENDS, "port-bo": SENDS})
    assert not ana.reaches(bo, ana.ping(bo, b"once")), "removing the rule ends existing connections"


def test_a_port_drops_everything_before_its_rules_arrive_and_nothing_without_port_security(
    net: HostNet, joined: Callable[..., list[Guest]]
) -> None:
    ana, bo = joined(ANA, BO)
    assert not ana.reaches(bo, ana.ping(bo, b"early"))
    net.filter({"port-ana": PortFilter(is_on=False), "port-bo": PortFilter(is_on=False)})
    assert ana.reaches(bo, ana.ping(bo, b"free", address=IPv4Address("10.64.0.99").packed))


def test_frames_with_foreign_addresses_are_dropped_unless_the_port_allows_them(
    net: HostNet, joined: Callable[..., list[Guest]]
) -> None:
    ana, bo, chi = joined(ANA, BO, CHI)
    all_rules = PortFilter(rules=(OUT, FilterRule(INGRESS)))
    net.filter(dict.fromkeys(("port-ana", "port-bo", "port-chi"), all_rules))
    virtual = IPv4Address("10.64.0.77").packed
    assert ana.reaches(bo, ana.ping(bo, b"true"))
    assert not ana.reaches(bo, ana.ping(bo, b"as chi", address=chi.address))
    assert not ana.reaches(bo, ana.ping(bo, b"by chi", mac=chi.mac))
    assert not ana.reaches(bo, ana.who_has(bo, address=chi.address)), "others would send to ana what is for chi"
    assert not ana.reaches(bo, ana.who_has(bo, mac=chi.mac))
    assert not ana.reaches(bo, ana.udp(bo, 67, 68, b"an address for you")), "guests are no DHCP servers"
    assert not ana.reaches(bo, ana.ping(bo, b"virtual", address=virtual))
    assert chi.reaches(bo, chi.ping(bo, b"still here"))
    net.filter({"port-ana": PortFilter(rules=(OUT,), pairs=(AddressPair("10.64.0.77"),)), "port-bo": all_rules})
    assert ana.reaches(bo, ana.ping(bo, b"virtual", address=virtual))


def test_a_rule_about_a_group_admits_its_members_only(net: HostNet, joined: Callable[..., list[Guest]]) -> None:
    ana, bo, chi = joined(ANA, BO, CHI)
    web = FilterRule(INGRESS, protocol="udp", low=53, high=54, remote_group="group-web")
    member = PortFilter(groups=("group-web",), rules=(OUT,))
    net.filter({"port-ana": member, "port-bo": PortFilter(rules=(web,)), "port-chi": SENDS})
    assert ana.reaches(bo, ana.udp(bo, 5000, 54, b"query"))
    assert bo.reaches(ana, bo.udp(ana, 54, 5000, b"answer"))
    assert not ana.reaches(bo, ana.udp(bo, 5000, 55, b"elsewhere"))
    assert not chi.reaches(bo, chi.udp(bo, 5000, 54, b"unknown"))
    net.filter({"port-ana": SENDS, "port-bo": PortFilter(rules=(web,)), "port-chi": member})
    assert not ana.reaches(bo, ana.udp(bo, 5000, 54, b"query"))
    assert chi.reaches(bo, chi.udp(bo, 5000, 54, b"known"))


def test_ipv6_passes_as_groups_and_anti_spoofing_allow_and_the_host_answers_discovery(
    net: HostNet, joined: Callable[..., list[Guest]]
) -> None:
    ana, bo = joined(ANA6, BO6)
    a, b = "fd00:64::3", "fd00:64::4"
    net.filter({"port-ana": PortFilter(rules=(OUT6,)), "port-bo": PortFilter(rules=(OUT6, OUT, PING6))})
    assert ana.reaches(bo, ana.ping6(bo, b"once", source=a, target=b))
    assert bo.reaches(ana, bo.ping6(ana, b"once", source=b, target=a, kind=129)), "that answers"
    assert not bo.reaches(ana, bo.ping6(ana, b"back", source=b, target=a)), "no rule of ana admits it"
    assert not ana.reaches(bo, ana.ping6(bo, b"liar", source="fd00:64::9", target=b))
    assert not ana.reaches(bo, ana.ping(bo, b"four")), "the rule is of IPv6"
    assert ana.reaches(bo, ana.has_card(bo, a, source=a))
    assert not ana.reaches(bo, ana.has_card(bo, "fd00:64::9", source=a)), "others would send to ana what is for another"
    leads = ana.ip6(
        bo, bytes((134, 0, 0, 0, 64, 0, 7, 8)) + bytes(8), source="fe80::f816:3eff:fe00:3", target="ff02::1"
    )
    assert not ana.reaches(bo, leads)
    net.filter({"port-ana": PortFilter(rules=(OUT6,)), "port-bo": PortFilter(rules=(OUT6,))})
    assert not ana.reaches(bo, ana.ping6(bo, b"once", source=a, target=b)), "it ended with its rule"
    assert ana.advertised()[5] == 0xC0, "addresses are to be had by DHCPv6, and names"
    net.filter(dict.fromkeys(("port-ana", "port-bo"), PortFilter(is_on=False)))
    service = "fe80::a9fe:a9fe"
    assert ana.reaches(bo, ana.ping6(bo, b"free", source="fd00:64::9", target=b))
    assert not ana.reaches(bo, ana.ping6(bo, b"trust me", source=service, target=b)), "no guest can pose as the service"
    assert not ana.reaches(bo, ana.has_card(bo, service, source=a))


def test_each_guest_gets_the_address_of_its_port_and_unknown_guests_none(
    net: HostNet, joined: Callable[..., list[Guest]]
) -> None:
    ana, bo = joined(ANA, BO)
    for guest in (ana, bo):
        reply = guest.offered()
        assert reply[16:20] == guest.address
        assert bytes([3, 4]) + IPv4Address("10.64.0.1").packed in reply[240:], "the way out"
        assert bytes([6, 4]) + IPv4Address("9.9.9.9").packed in reply[240:], "who knows names"
        assert b"web-1" in reply[240:]
    (settings,) = net._folder.glob("*.dnsmasq")
    assert "static" in settings.read_text(), "who is not listed gets nothing"


def test_metadata_requests_are_never_spoofed_even_without_port_security(
    net: HostNet, joined: Callable[..., list[Guest]], tmp_path: Path
) -> None:
    ana, bo = joined(ANA, BO)
    for port in (ANA, BO):
        net.plug(f"server-of-{port.port_uuid}", [Client(port, "web-1", MetadataPages({}, tmp_path / "posted"))])
    net.filter({"port-ana": PortFilter(is_on=False), "port-bo": SENDS})
    ana.send(ana.asks_for_metadata(1, like=bo))
    ana.send(ana.asks_for_metadata(2))
    assert ana.metadata_answer() == 2, "who asks as bo is not heard"
    assert not ana.reaches(bo, ana.ping(bo, b"trust me", address=METADATA))
    assert not ana.reaches(bo, ana.who_has(bo, address=METADATA))
    bo.send(bo.asks_for_metadata(3))
    assert bo.metadata_answer() == 3, "and bo, which admits no traffic, gets no unrequested answer"


def test_equal_addresses_in_two_networks_belong_to_two_guests(net: HostNet, joined: Callable[..., list[Guest]]) -> None:
    twin = [
        NetworkPort(f"twin-{port.port_uuid}", "other", port.mac_address.replace("3e", "3f"), port.ip_address, 20,
                    port.cidr, network_uuid=OTHER_NETWORK)
        for port in (ANA, BO)
    ]  # fmt: skip
    ana, bo, ana_twin, bo_twin = joined(ANA, BO, *twin)
    net.filter({"port-ana": SENDS, "port-bo": PortFilter(rules=(PING,)), twin[0].port_uuid: SENDS})
    assert ana.reaches(bo, ana.ping(bo, b"one"))
    # Nothing in the other network has asked, so this is not an answer.
    assert not bo_twin.reaches(ana_twin, bo_twin.pong(ana_twin, b"one"))
    assert bo.reaches(ana, bo.pong(ana, b"one"))


def test_unplugging_removes_port_rules_bridge_and_server(net: HostNet) -> None:
    net.plug("server-1", [Client(ANA, "web-1"), Client(BO, "web-1")])
    assert len(devices()) == 4
    assert net.ports_of("server-1") == {"port-ana", "port-bo"}
    assert [found["mac_address"] for found in net.counters("server-1")] == [ANA.mac_address, BO.mac_address]
    net.unplug("server-1", "port-bo")
    assert net.device_of(BO) not in _rules()
    assert net.device_of(ANA) in _rules()
    net.unplug("server-2")
    assert len(devices()) == 3
    net.unplug("server-1")
    assert devices() == []
    assert _rules() == ""
    assert list(net._folder.glob("nb*")) == []


def test_a_new_start_keeps_what_is_plugged_with_its_rules_and_removes_what_is_left_over(
    net: HostNet, joined: Callable[..., list[Guest]]
) -> None:
    ana, bo = joined(ANA, BO)
    net.plug("gone", [Client(CHI, "gone")])
    net.filter({"port-ana": SENDS, "port-bo": PortFilter(rules=(PING,))})
    _run("nft", "flush", "ruleset")
    _run("ip", "tuntap", "add", "dev", f"{net.device_of(ANA)[:6]}0left0", "mode", "tap")
    again = HostNet(net._folder)
    again.start([(f"server-of-{port.port_uuid}", Client(port, "web-1")) for port in (ANA, BO)])
    assert len(devices()) == 4
    assert net.device_of(CHI) not in " ".join(devices())
    assert ana.reaches(bo, ana.ping(bo, b"again"))
    assert not bo.reaches(ana, bo.ping(ana, b"back"))
    again.stop()


def test_a_port_that_cannot_be_served_leaves_nothing(net: HostNet, monkeypatch: pytest.MonkeyPatch) -> None:
    for port, words in (
        (NetworkPort("six", "n", "fa:16:3e:00:00:09", "fd00::5", 64, "fd01::/64"), "not in 'fd01::/64'"),
        (replace(ANA6, port_uuid="more", more=(PortAddress("fd00::5", "fd01::/64"),)), "not in 'fd01::/64'"),
        (NetworkPort("bad", "n", "fa:16:3e:00:00", "10.64.0.9", 20, "10.64.0.0/20"), "MAC address"),
    ):
        with pytest.raises(BuildAborted, match=words):
            net.plug("server-1", [Client(ANA, "web-1"), Client(port, "web-1")])
    assert devices() == []
    monkeypatch.setenv("PATH", _without("dnsmasq", net._folder))
    with pytest.raises(DriverError, match="apt-get install dnsmasq-base"):
        net.plug("server-1", [Client(ANA, "web-1")])
    assert devices() == []
    assert net.ports_of("server-1") == set()


def _without(program: str, folder: Path) -> str:
    """Return a search path with all needed programs except one."""
    for name in ("ip", "nft"):
        (folder / name).symlink_to(str(shutil.which(name)))
    assert shutil.which(program, path=str(folder)) is None
    return str(folder)


def test_rules_that_cannot_be_applied_change_nothing(
    net: HostNet, joined: Callable[..., list[Guest]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, bo = joined(ANA, BO)
    allowed = {"port-ana": SENDS, "port-bo": PortFilter(rules=(PING,))}
    net.filter(allowed)
    with monkeypatch.context() as patched:
        patched.setattr(rules, "REPLY_MARK", "no mark of nft's")
        with pytest.raises(DriverError, match="could not be applied"):
            net.filter({"port-ana": SENDS, "port-bo": SENDS})
    assert net.filters == allowed
    assert ana.reaches(bo, ana.ping(bo, b"still"))
