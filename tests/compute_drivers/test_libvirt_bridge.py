"""Guests of the libvirt driver on networks of the host's kernel: real QEMU processes on real taps.

That they move with their guests is shown by the suite of moves with shared disks (test_libvirt_live.py).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from compute_drivers.libvirt import attachments, embedded
from compute_drivers.libvirt.driver import LibvirtDriver
from conductor.conformance.driver import RecordedProgress
from conductor.core.compute_driver import NetworkPort, PortAddress
from conductor.core.errors import BuildAborted, DriverError
from conductor.core.port_filters import EGRESS, INGRESS, FilterRule, PortFilter, fingerprint
from tests.compute_drivers.net_space import devices, net_space, wait_until_forwarding
from tests.compute_drivers.real_guests import IMAGE, QUICK, SHELF, ask, state_dir, wait_for
from tests.fixtures.tiny_guests import linux
from tests.guests import guest_of

NETWORK = "6f1b6f2e-net"
PORT, SECOND = (
    NetworkPort(f"port-{number}", "private", f"fa:16:3e:00:01:0{number}", f"10.64.0.{number}", 20, "10.64.0.0/20",
                network_uuid=NETWORK)
    for number in (5, 6)
)  # fmt: skip
OPEN = PortFilter(rules=(FilterRule(EGRESS), FilterRule(INGRESS)))
ANA, BO = (
    NetworkPort(f"port-{name}", "private", f"fa:16:3e:00:02:0{number}", f"10.64.0.{number}", 20, "10.64.0.0/20",
                "10.64.0.1", network_uuid=NETWORK,
                more=(PortAddress(f"10.64.0.4{number}", "10.64.0.0/20"),
                      PortAddress(f"fd00:64::f816:3eff:fe00:20{number}", "fd00:64::/64", ipv6_mode="slaac")))
    for name, number in (("ana", 7), ("bo", 8))
)  # fmt: skip
SENDS = PortFilter(rules=(FilterRule(EGRESS), FilterRule(EGRESS, "IPv6")))
READS = rb"""#!/bin/sh
ask() { printf "$1 /openstack/latest/$2 HTTP/1.0\r\n$3" | nc -w 9 169.254.169.254 80 | tr -d '\r'; }
echo "it is $(ask GET meta_data.json '\r\n' | sed -n 's/^ "uuid": "\(.*\)",*$/\1/p')"
ask POST password 'Content-Length: 5\r\n\r\nsent!'
"""
# With the advertised prefix, after duplicate address detection.
HAS_MADE_ONE = (
    b"\nuntil grep -q '^fd00[0-9a-f]* [0-9a-f]* 40 00 [08]0' /proc/net/if_inet6; do sleep 0.2; done; w=made; "
    b"echo it is $w.\n"
)
# From the card's own name on the link, and from the address that it made.
READS_BY_IPV6 = (
    b"\nprintf 'GET /openstack/latest/meta_data.json HTTP/1.0\\r\\n\\r\\n' | nc -w 9 fe80::a9fe:a9fe%eth0 80 "
    b"""| sed -n 's/^ "uuid": "\\(.*\\)",*$/by six it is \\1/p'\n"""
)
PINGED = re.compile(rb"it is (answered|lost)\.")


@pytest.fixture(scope="module")
def space() -> Iterator[str]:
    with net_space() as name:
        yield name


@pytest.fixture
def host(
    real_driver: LibvirtDriver, space: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LibvirtDriver]:
    """A second host on the same hypervisor, in a network namespace of its own."""
    monkeypatch.setattr(attachments, "DETACH_SECONDS", 0.5)
    uri = embedded.prepare(state_dir(real_driver) / "libvirt")
    options = {"state_dir": str(tmp_path / "bridged"), "uri": uri, "guest_network": "bridge", **QUICK}
    driver = LibvirtDriver("real-3", options, SHELF.open)
    driver.start()
    yield driver
    for guest in driver.guests():
        driver.destroy(guest.instance_uuid)
    driver.stop()
    assert devices() == []


def tap_of(driver: LibvirtDriver, port: NetworkPort) -> str:
    return driver.node.networks._kernel.device_of(port)


def test_a_guest_is_on_a_tap_from_its_start_to_its_end_and_over_a_restart_of_its_agent(host: LibvirtDriver) -> None:
    guest = guest_of(str(uuid4()), IMAGE, ports=(PORT,))
    uuid = guest.instance_uuid
    host.spawn(guest, RecordedProgress())
    wait_until_forwarding(tap_of(host, PORT))  # QEMU is at its other end
    assert host.filters_ports
    filters = {PORT.port_uuid: OPEN, SECOND.port_uuid: OPEN}
    host.filter_ports(filters)
    assert host.report().capabilities["port_filters"] == fingerprint(filters)
    host.attach_interface(uuid, SECOND)
    wait_until_forwarding(tap_of(host, SECOND))
    assert {card["mac_address"] for card in host.diagnostics(uuid)["nics"]} == {PORT.mac_address, SECOND.mac_address}
    again = LibvirtDriver(host.host, host.options, SHELF.open)
    again.start()
    assert len(devices()) == 4
    assert again.report().capabilities["port_filters"] == fingerprint(filters), "rules are kept until others arrive"
    again.reboot(guest, is_hard=True, timeout_seconds=0.0)
    assert [name for name in devices() if name.startswith("nt")] == [tap_of(host, PORT)]
    again.destroy(uuid)
    again.stop()
    assert devices() == []


def test_failed_calls_leave_no_port(host: LibvirtDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = NetworkPort("bad", "private", "fa:16:3e:00:01:09", "fd00::5", 64, "fd01::/64")
    with pytest.raises(BuildAborted, match="which is not in 'fd01::/64'"):
        host.spawn(guest_of(str(uuid4()), IMAGE, ports=(PORT, wrong)), RecordedProgress())
    assert devices() == []
    assert host.guests() == []
    monkeypatch.setattr("compute_drivers.host_net.host_net.BRIDGED_CALLS", Path("/nowhere"))
    with pytest.raises(DriverError, match="br_netfilter is not loaded"):
        LibvirtDriver("real-4", {**host.options, "state_dir": str(state_dir(host) / "x")}, SHELF.open).start()


def test_two_linux_guests_have_their_addresses_read_of_themselves_and_meet_as_far_as_a_group_lets_them(
    host: LibvirtDriver, tiny_linux: Path
) -> None:
    script = base64.b64encode(READS).decode()
    guests = [linux(tiny_linux, ports=(port,), user_data=script) for port in (ANA, BO)]
    pings = PortFilter(rules=(*SENDS.rules, *(FilterRule(INGRESS, f"IPv{number}", "icmp") for number in (4, 6))))
    host.filter_ports({ANA.port_uuid: SENDS, BO.port_uuid: pings})
    for guest in guests:
        host.spawn(guest, RecordedProgress())
    for guest, port in zip(guests, (ANA, BO), strict=True):
        text = wait_for(host, guest.instance_uuid, b"novella: up after").decode()
        assert f"address {port.ip_address}\r\n" in text
        assert f"novella: it is {guest.instance_uuid}\r\n" in text
        assert host.posted_password(guest.instance_uuid) == "sent!"
    ana, bo = (guest.instance_uuid for guest in guests)
    second, sixth = (address.ip_address for address in BO.more)
    # The further address of IPv4 a guest takes by itself; that of IPv6 it made of what the host advertised.
    ask(host, bo, f"\nip address add {second}/20 dev eth0; w=taken; echo it is $w.\n".encode(), b"it is taken.")
    for uuid in (ana, bo):
        ask(host, uuid, HAS_MADE_ONE, b"it is made.")
        ask(host, uuid, READS_BY_IPV6, f"by six it is {uuid}".encode())
    for address in (BO.ip_address, second, sixth):
        assert pinged(host, ana, address) == "answered"
    host.filter_ports({ANA.port_uuid: SENDS, BO.port_uuid: SENDS})
    for address in (BO.ip_address, sixth):
        assert pinged(host, ana, address) == "lost"


def pinged(driver: LibvirtDriver, uuid: str, address: str) -> str:
    """Return whether a guest reaches the address: "answered" or "lost", as the guest reports."""
    asks = f"\nping -c 2 -W 1 {address} > /dev/null && w=answered || w=lost; echo it is $w.; d=done; echo it is $d.\n"
    (found,) = PINGED.findall(ask(driver, uuid, asks.encode(), b"it is done."))
    return str(found, "ascii")
