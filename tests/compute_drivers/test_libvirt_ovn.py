"""Guests of the libvirt driver on OVN: real QEMU processes on two hosts, which are network namespaces."""

from __future__ import annotations

import base64
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from compute_drivers.libvirt import attachments
from compute_drivers.libvirt.driver import LibvirtDriver
from compute_drivers.ovn_net.integration_bridge import BRIDGE
from conductor.conformance.driver import RecordedProgress
from conductor.core.compute_driver import NetworkPort, PortAddress
from conductor.core.errors import DriverError
from conductor.core.ovn_names import metadata_port_name
from conductor.core.port_filters import EGRESS, INGRESS, FilterRule
from conductor.network.ovn.database import NorthboundDatabase
from conductor.network.ovn.desired import desired
from conductor.network.ovn.topology import (
    CloudTopology,
    FixedAddress,
    NetworkSpec,
    PortSpec,
    SecurityGroupSpec,
    SubnetSpec,
)
from tests.compute_drivers.libvirtd import Daemon
from tests.compute_drivers.net_space import devices
from tests.compute_drivers.real_guests import IMAGE, QUICK, SHELF, ask, state_dir, wait_for
from tests.fixtures.tiny_guests import linux
from tests.guests import guest_of
from tests.services import ovn
from tests.waiting import wait_until

NETWORK = "6f1b6f2e-net"
ANA, BO, UNKNOWN = (
    NetworkPort(f"port-{name}", "private", f"fa:16:3e:00:03:0{number}", f"10.65.0.{number}", 24, "10.65.0.0/24",
                "10.65.0.1", network_uuid=NETWORK, more=(PortAddress(f"fd00:65::{number}", "fd00:65::/64"),))
    for name, number in (("ana", 7), ("bo", 8), ("chi", 9))
)  # fmt: skip
RULES = (FilterRule(EGRESS), FilterRule(INGRESS, protocol="icmp"), FilterRule(INGRESS, "IPv4", "tcp", 8080, 8080))
READS = rb"""#!/bin/sh
ask() { printf "$1 /$2 HTTP/1.0\r\n$3" | nc -w 9 169.254.169.254 80 | tr -d '\r'; }
own=$(ask GET openstack/latest/meta_data.json '\r\n' | sed -n 's/^ "uuid": "\(.*\)",*$/\1/p')
echo "it is $own"
echo "its name: $(ask GET latest/meta-data/hostname '\r\n' | tail -n 1)"
echo "its password: $(ask POST openstack/latest/password 'Content-Length: 5\r\n\r\nsent!' | sed -n '1s/[^ ]* //p')"
echo "nothing there: $(ask GET latest/nothing '\r\n' | sed -n '1s/[^ ]* //p')"
(while :; do echo "here is $own"; sleep 0.2; done | nc -l -p 8080 > /dev/null) &
"""
# The first packet to a new host may be lost while Open vSwitch asks for its address.
PINGS = f"\nuntil ping -c 1 -W 1 {BO.ip_address} > /dev/null; do :; done; w=answered; echo ping is $w.\n".encode()
# The guest sends too: at the destination, connection tracking starts with a packet that its rules allow.
LISTENS = f"""
while :; do echo; sleep 0.2; done | nc {BO.ip_address} 8080 > /tmp/lines &
until grep -q here /tmp/lines; do sleep 0.2; done; head -1 /tmp/lines
""".encode()
# After duplicate address detection of the card's link-local address.
READS_BY_IPV6 = rb"""
until grep -q '^fe80[0-9a-f]* [0-9a-f]* 40 20 80' /proc/net/if_inet6; do sleep 0.2; done
printf 'GET /openstack/latest/meta_data.json HTTP/1.0\r\n\r\n' | nc -w 9 fe80::a9fe:a9fe%eth0 80 | grep uuid
"""
POSTS_AGAIN = b"""
printf "POST /openstack/latest/password HTTP/1.0\\r\\nContent-Length: 5\\r\\n\\r\\nother" | nc -w 9 169.254.169.254 80
"""
STILL_LISTENS = b"""
n=$(wc -l < /tmp/lines); until [ $(wc -l < /tmp/lines) -gt $n ]; do sleep 0.2; done; w=goes; echo it $w on.
printf "GET /openstack/latest/meta_data.json HTTP/1.0\\r\\n\\r\\n" | nc -w 9 169.254.169.254 80 | grep uuid
"""


def topology(ana_host: str, destination: str = "", *, bo_host: str = "h2") -> CloudTopology:
    """Return a network with the ports of ana, which is moving to `destination`, and of bo."""
    ports = tuple(
        PortSpec(
            port.port_uuid,
            NETWORK,
            port.mac_address,
            host=host,
            destination=to,
            addresses=(
                FixedAddress("subnet", port.ip_address),
                *(FixedAddress("subnet-6", one.ip_address) for one in port.more),
            ),
            groups=("group",),
        )
        for port, host, to in ((ANA, ana_host, destination), (BO, bo_host, ""))
    )
    return CloudTopology(
        networks=(NetworkSpec(NETWORK),),
        subnets=(
            SubnetSpec("subnet", NETWORK, "10.65.0.0/24", gateway_ip="10.65.0.1"),
            SubnetSpec("subnet-6", NETWORK, "fd00:65::/64"),
        ),
        ports=ports,
        security_groups=(SecurityGroupSpec("group", rules={str(number): rule for number, rule in enumerate(RULES)}),),
    )


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ovn.Lab]:
    """A lab with two hosts."""
    with ovn.lab(tmp_path_factory.mktemp("ovn")) as made:
        for host in ("h1", "h2"):
            made.add_host(host)
        yield made
        assert made.flow_warnings() == []


@pytest.fixture(scope="module")
def opened(lab: ovn.Lab) -> Iterator[NorthboundDatabase]:
    made = NorthboundDatabase(lab.central.nb_remote)
    yield made
    made.close()


@pytest.fixture
def database(opened: NorthboundDatabase) -> NorthboundDatabase:
    """The northbound database with a network and ana's port on h1."""
    opened.write(desired(topology("h1")))
    return opened


@pytest.fixture(scope="module")
def uris(lab: ovn.Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """A libvirt daemon on each host."""
    with ExitStack() as stack:
        daemons = {name: Daemon(tmp_path_factory.mktemp(name)) for name in lab.hosts}
        for name, daemon in daemons.items():
            with inside(lab, name):
                daemon.start()
            stack.callback(daemon.stop)
        yield {name: daemon.uri for name, daemon in daemons.items()}


@pytest.fixture
def driver_on(
    uris: Mapping[str, str],
    lab: ovn.Lab,
    database: NorthboundDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., LibvirtDriver]]:
    """Creates the driver of a host, for use inside that host's namespace."""
    monkeypatch.setattr(attachments, "DETACH_SECONDS", 0.5)

    def make(name: str, **options: Any) -> LibvirtDriver:
        run_dirs = dict.fromkeys(("ovs_run_dir", "ovn_run_dir"), str(lab.hosts[name].folder))
        folders = {"state_dir": str(tmp_path / name), **run_dirs}
        hypervisor = {"uri": uris[name], "migration_uri": uris[name], "migration_address": "unix", **QUICK}
        return LibvirtDriver(name, {"guest_network": "ovn", **hypervisor, **folders, **options}, SHELF.open)

    yield make
    for name in lab.hosts:
        with inside(lab, name):
            driver = make(name)
            driver.start()
            for guest in driver.guests():
                driver.destroy(guest.instance_uuid)
            driver.stop()
            assert ours(lab, name) == []
            assert not [device for device in devices() if device.startswith(("no", "nq"))]


def inside(lab: ovn.Lab, name: str) -> AbstractContextManager[None]:
    """Run this thread, and the processes that it starts, on the host."""
    return lab.hosts[name].namespace.entered()


def ours(lab: ovn.Lab, name: str) -> list[str]:
    """Return the logical ports that the driver has plugged on a host."""
    found = lab.hosts[name].vsctl(
        "--bare", "--columns=external_ids", "find", "Interface", f"external_ids:novella-host={name}"
    )
    words = found.split()
    return sorted(word.removeprefix("iface-id=") for word in words if word.startswith("iface-id="))


def test_a_port_is_plugged_while_its_guest_runs(driver_on: Callable[..., LibvirtDriver], lab: ovn.Lab) -> None:
    guest, service = guest_of(str(uuid4()), IMAGE, ports=(ANA,)), metadata_port_name(NETWORK)
    vsctl = lab.hosts["h1"].vsctl
    with inside(lab, "h1"):
        driver = driver_on("h1")
        driver.start()
        driver.spawn(guest, RecordedProgress())
        wait_until(
            "northd says so", lambda: lab.nb("get", "Logical_Switch_Port", ANA.port_uuid, "up").strip() == "true"
        )
        assert ours(lab, "h1") == [service, ANA.port_uuid]
        assert [card["mac_address"] for card in driver.diagnostics(guest.instance_uuid)["nics"]] == [ANA.mac_address]
        driver.stop()

        vsctl("add-port", BRIDGE, "no-orphan", "--", "set", "Interface", "no-orphan", "external_ids:novella-host=h1")
        vsctl("add-port", BRIDGE, "theirs", "--", "set", "Interface", "theirs", "type=internal")
        again = driver_on("h1", plug_seconds=1.0)
        again.start()
        assert ours(lab, "h1") == [service, ANA.port_uuid]
        left = vsctl("list-ports", BRIDGE).split()
        assert ("theirs" in left, "no-orphan" in left) == (True, False)
        vsctl("del-port", "theirs")

        with pytest.raises(DriverError, match="OVN has not set up port port-chi on chassis h1 within 1 seconds"):
            again.attach_interface(guest.instance_uuid, UNKNOWN)
        assert ours(lab, "h1") == [service, ANA.port_uuid]
        again.stop()

        last = driver_on("h1")
        last.start()
        last.reboot(guest, is_hard=True, timeout_seconds=0.0)
        lab.await_up(ANA.port_uuid)
        last.destroy(guest.instance_uuid)
        assert ours(lab, "h1") == []
        last.stop()


def test_a_guest_whose_port_is_bound_to_another_host_does_not_start(
    driver_on: Callable[..., LibvirtDriver], lab: ovn.Lab
) -> None:
    with inside(lab, "h1"):
        driver = driver_on("h1", plug_seconds=1.0)
        driver.start()
        with pytest.raises(DriverError, match="OVN has not set up port port-bo on chassis h1"):
            driver.spawn(guest_of(str(uuid4()), IMAGE, ports=(BO,)), RecordedProgress())
        assert driver.guests() == []
        assert ours(lab, "h1") == []
        driver.stop()


def test_guests_on_two_hosts_connect_read_metadata_and_stay_connected_through_a_live_migration(
    driver_on: Callable[..., LibvirtDriver], lab: ovn.Lab, database: NorthboundDatabase, tiny_linux: Path
) -> None:
    script = base64.b64encode(READS).decode()
    ana, bo = (linux(tiny_linux, ports=(port,), user_data=script) for port in (ANA, BO))
    with ExitStack() as stack:
        drivers = {}
        for name, guest in (("h1", ana), ("h2", bo)):
            with inside(lab, name):
                drivers[name] = driver = driver_on(name)
                driver.start()
                stack.callback(driver.stop)
                driver.spawn(guest, RecordedProgress())
        source, destination = drivers["h1"], drivers["h2"]
        for driver, guest, port in ((source, ana, ANA), (destination, bo, BO)):
            text = wait_for(driver, guest.instance_uuid, b"novella: up after").decode()
            assert f"address {port.ip_address}\r\n" in text
            for output in (
                f"it is {guest.instance_uuid}",
                "its name: web-42",
                "its password: 200 OK",
                "nothing there: 404 Not Found",
            ):
                assert f"novella: {output}\r\n" in text
            assert driver.posted_password(guest.instance_uuid) == "sent!"
            ask(driver, guest.instance_uuid, READS_BY_IPV6, f'"uuid": "{guest.instance_uuid}"'.encode())
        with inside(lab, "h1"):  # the next agent goes on from the notes
            source.stop()
            source = driver_on("h1")
            source.start()
            stack.callback(source.stop)
        note = state_dir(source) / "instances" / ana.instance_uuid / "network.json"
        assert stat.S_IMODE(note.stat().st_mode) == 0o600
        ask(source, ana.instance_uuid, POSTS_AGAIN, b"409 Conflict")
        source.forget_password(ana.instance_uuid)
        assert source.posted_password(ana.instance_uuid) == ""
        ask(source, ana.instance_uuid, POSTS_AGAIN, b"200 OK")
        assert source.posted_password(ana.instance_uuid) == "other"
        ask(source, ana.instance_uuid, PINGS, b"ping is answered.")
        ask(source, ana.instance_uuid, LISTENS, f"here is {bo.instance_uuid}".encode())

        database.write(desired(topology("h1", "h2")))
        with inside(lab, "h2"):
            target = destination.prepare_live_migration(ana, is_block_migration=None)
        ask(source, ana.instance_uuid, PINGS, b"ping is answered.")
        with inside(lab, "h1"):
            source.live_migrate(ana, target, RecordedProgress(), is_block_migration=None)
            assert ours(lab, "h1") == []
        assert ours(lab, "h2") == [metadata_port_name(NETWORK), ANA.port_uuid, BO.port_uuid]
        own = f'"uuid": "{ana.instance_uuid}"'.encode()
        ask(destination, ana.instance_uuid, STILL_LISTENS, b"it goes on.", own)
        assert lab.chassis_of(ANA.port_uuid) != "h2", "the guest needs no new binding to go on"
        database.write(desired(topology("h2")))
        lab.await_up(ANA.port_uuid)
        assert lab.chassis_of(ANA.port_uuid) == "h2"
        with inside(lab, "h2"):
            destination.finish_live_migration(ana)
        ask(destination, ana.instance_uuid, STILL_LISTENS, b"it goes on.", own)
        ask(destination, ana.instance_uuid, PINGS, b"ping is answered.")


def test_a_failed_move_leaves_the_port_bound_to_its_host(
    driver_on: Callable[..., LibvirtDriver], lab: ovn.Lab, database: NorthboundDatabase
) -> None:
    guest = guest_of(str(uuid4()), IMAGE, ports=(ANA,))
    with inside(lab, "h1"):
        source = driver_on("h1")
        source.start()
        source.spawn(guest, RecordedProgress())
    with inside(lab, "h2"):
        destination = driver_on("h2", plug_seconds=1.0)
        destination.start()
        with pytest.raises(DriverError, match="OVN has not set up port port-ana on chassis h2"):
            destination.prepare_live_migration(guest, is_block_migration=None)
        assert ours(lab, "h2") == []
        database.write(desired(topology("h1", "h2")))
        destination.prepare_live_migration(guest, is_block_migration=None)
        destination.cancel_live_migration(guest.instance_uuid)
        assert ours(lab, "h2") == []
        destination.stop()
    database.write(desired(topology("h1")))
    lab.nb("--wait=hv", "sync")
    assert lab.chassis_of(ANA.port_uuid) == "h1"
    lab.await_up(ANA.port_uuid)
    source.stop()


def test_a_guest_with_shared_disks_moves_with_its_port(
    driver_on: Callable[..., LibvirtDriver], lab: ovn.Lab, database: NorthboundDatabase, tmp_path: Path
) -> None:
    """It goes on from the note that both hosts see."""
    shared = tmp_path / "shared"
    shared.mkdir()
    guest, service = guest_of(str(uuid4()), IMAGE, ports=(ANA,)), metadata_port_name(NETWORK)
    with inside(lab, "h1"):
        source = driver_on("h1", shared_dir=str(shared))
        source.start()
        source.spawn(guest, RecordedProgress())
    database.write(desired(topology("h1", "h2")))
    with inside(lab, "h2"):
        destination = driver_on("h2", shared_dir=str(shared))
        destination.start()
        target = destination.prepare_live_migration(guest, is_block_migration=False)
    with inside(lab, "h1"):
        source.live_migrate(guest, target, RecordedProgress(), is_block_migration=False)
        assert ours(lab, "h1") == []
    database.write(desired(topology("h2")))
    with inside(lab, "h2"):
        destination.finish_live_migration(guest)
        lab.await_up(ANA.port_uuid)
        assert (ours(lab, "h2"), lab.chassis_of(ANA.port_uuid)) == ([service, ANA.port_uuid], "h2")
        destination.destroy(guest.instance_uuid)
        assert ours(lab, "h2") == []
        destination.stop()
    source.stop()


def test_the_port_of_a_stopped_guest_moves_to_its_new_host_and_back(
    driver_on: Callable[..., LibvirtDriver], lab: ovn.Lab, database: NorthboundDatabase
) -> None:
    guest, service = guest_of(str(uuid4()), IMAGE, ports=(ANA,)), metadata_port_name(NETWORK)
    with inside(lab, "h1"):
        source = driver_on("h1")
        source.start()
        source.spawn(guest, RecordedProgress())
        disks = source.migrate_out(guest, "h2", RecordedProgress())
        assert ours(lab, "h1") == []
    database.write(desired(topology("h2")))
    with inside(lab, "h2"):
        destination = driver_on("h2")
        destination.start()
        destination.migrate_in(guest, disks, RecordedProgress(), is_running=True)
        lab.await_up(ANA.port_uuid)
        assert (ours(lab, "h2"), lab.chassis_of(ANA.port_uuid)) == ([service, ANA.port_uuid], "h2")
        destination.power_off(guest.instance_uuid, 0.0)
    database.write(desired(topology("h1")))
    with inside(lab, "h1"):
        source.revert_migration(guest, is_running=True)
        lab.await_up(ANA.port_uuid)
        assert (ours(lab, "h1"), lab.chassis_of(ANA.port_uuid)) == ([service, ANA.port_uuid], "h1")
        source.stop()
    with inside(lab, "h2"):
        destination.destroy(guest.instance_uuid)
        destination.stop()


def test_a_returning_host_does_not_take_the_port_of_its_evacuated_guest(
    driver_on: Callable[..., LibvirtDriver], lab: ovn.Lab, database: NorthboundDatabase, tiny_linux: Path
) -> None:
    ana, dead = linux(tiny_linux, ports=(ANA,)), lab.hosts["h1"]
    with inside(lab, "h1"):
        source = driver_on("h1")
        source.start()
        source.spawn(ana, RecordedProgress())
        source.stop()
    for daemon in dead.daemons:
        daemon.kill()
    database.write(desired(topology("h2", bo_host="h1")))
    with inside(lab, "h2"):
        destination = driver_on("h2")
        destination.start()
        destination.spawn(ana, RecordedProgress())
    text = wait_for(destination, ana.instance_uuid, b"novella: up after").decode()
    assert f"address {ANA.ip_address}\r\n" in text

    for daemon in dead.daemons:
        daemon.start()
    assert ANA.port_uuid in ours(lab, "h1"), "its guest still runs there"
    bo = lab.add_guest(dead, BO.port_uuid, BO.mac_address, f"{BO.ip_address}/24")
    lab.nb("--wait=hv", "sync")
    assert lab.chassis_of(ANA.port_uuid) == "h2"
    wait_until("ana answers bo from her new host", lambda: bo.pings(ANA.ip_address))
    dead.vsctl("del-port", "br-int", f"v-{BO.port_uuid}")
    with inside(lab, "h2"):
        destination.destroy(ana.instance_uuid)
        destination.stop()


def test_missing_requirements_of_ovn_are_named_at_the_start(
    driver_on: Callable[..., LibvirtDriver], lab: ovn.Lab
) -> None:
    host = lab.hosts["h2"]

    def cause() -> str:
        with pytest.raises(DriverError, match="guest_network: ovn cannot be had here: ") as refused:
            driver_on("h2").start()
        return str(refused.value).partition("cannot be had here: ")[2]

    with inside(lab, "h2"):
        host.vsctl("set", "Open_vSwitch", ".", "external-ids:system-id=h7")
        assert cause() == "the chassis is named 'h7' (system-id), not 'h2'."
        host.vsctl("set", "Open_vSwitch", ".", "external-ids:system-id=h2")
        host.controller.kill()
        assert cause() == "ovn-controller does not run."
        host.vswitchd.kill()
        assert cause() == "Open vSwitch does not run (ovs-vswitchd)."
        host.database.kill()
        assert cause() == "Open vSwitch's database does not answer (ovsdb-server)."
        for daemon in host.daemons:
            daemon.start()
    lab.await_chassis("h2")
