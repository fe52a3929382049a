"""Containers on OVN: real ones on a host, and a namespace as a guest on another, in a lab of the test's own."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from compute_drivers.container.driver import ContainerDriver
from compute_drivers.ovn_net.integration_bridge import BRIDGE
from conductor.conformance.driver import RecordedProgress
from conductor.core.compute_driver import GuestInfo, NetworkPort
from conductor.core.errors import DriverError
from conductor.core.port_filters import EGRESS, INGRESS, FilterRule
from conductor.core.states import PowerState
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
from tests.compute_drivers.containers import IMAGE, SHELF, inside, left_of
from tests.fixtures.tcp import serving
from tests.guests import guest_of
from tests.services import ovn
from tests.services.namespaces import NetworkNamespace
from tests.waiting import WAIT_SECONDS, wait_until

NETWORK = "6f1b6f2e-net"
ANA, SECOND, BO = (
    NetworkPort(f"port-{name}", "private", f"fa:16:3e:00:05:0{number}", f"10.66.0.{number}", 24, "10.66.0.0/24",
                "10.66.0.1", network_uuid=NETWORK)
    for name, number in (("ana", 7), ("second", 8), ("bo", 9))
)  # fmt: skip
LETS_WEB = FilterRule(INGRESS, protocol="tcp", low=80, high=80)


def topology(*rules: FilterRule) -> CloudTopology:
    """Return a network with ana's ports on h1 and bo's on h2; `rules` are further ones of their group."""
    ports = tuple(
        PortSpec(
            port.port_uuid,
            NETWORK,
            port.mac_address,
            host=host,
            addresses=(FixedAddress("subnet", port.ip_address),),
            groups=("group",),
        )
        for port, host in ((ANA, "h1"), (SECOND, "h1"), (BO, "h2"))
    )
    every = (FilterRule(EGRESS), FilterRule(INGRESS, protocol="icmp"), *rules)
    return CloudTopology(
        networks=(NetworkSpec(NETWORK),),
        subnets=(SubnetSpec("subnet", NETWORK, "10.66.0.0/24", gateway_ip="10.66.0.1"),),
        ports=ports,
        security_groups=(SecurityGroupSpec("group", rules={str(number): rule for number, rule in enumerate(every)}),),
    )


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ovn.Lab]:
    with ovn.lab(tmp_path_factory.mktemp("ovn")) as made:
        for host in ("h1", "h2"):
            made.add_host(host)
        yield made
        assert made.flow_warnings() == []


@pytest.fixture(scope="module")
def database(lab: ovn.Lab) -> Iterator[NorthboundDatabase]:
    made = NorthboundDatabase(lab.central.nb_remote)
    made.write(desired(topology()))
    yield made
    made.close()


@pytest.fixture(scope="module")
def bo(lab: ovn.Lab, database: NorthboundDatabase) -> NetworkNamespace:
    return lab.add_guest(lab.hosts["h2"], BO.port_uuid, BO.mac_address, f"{BO.ip_address}/24")


@pytest.fixture
def make_driver(lab: ovn.Lab, database: NorthboundDatabase, tmp_path: Path) -> Iterator[Callable[..., ContainerDriver]]:
    """Makes and starts the driver of h1; the test is in that host's namespace."""
    run_dir = Path(tempfile.mkdtemp(prefix="nv-"))
    run_dir.chmod(0o755)
    run_dirs = dict.fromkeys(("ovs_run_dir", "ovn_run_dir"), str(lab.hosts["h1"].folder))
    options = {"state_dir": str(tmp_path / "h1"), "run_dir": str(run_dir), "guest_network": "ovn", **run_dirs}

    def make(**more: object) -> ContainerDriver:
        driver = ContainerDriver("h1", {**options, **more}, SHELF.open)
        driver.start()
        return driver

    with lab.hosts["h1"].namespace.entered():
        yield make
        driver = make()
        for guest in driver.guests():
            driver.destroy(guest.instance_uuid)
            assert left_of(driver, guest.instance_uuid) == []
        driver.stop()
        assert plugged(lab) == []
    shutil.rmtree(run_dir)


def plugged(lab: ovn.Lab) -> list[str]:
    """Return the logical ports that the driver has plugged on h1."""
    words = ("--bare", "--columns=external_ids", "find", "Interface", "external_ids:novella-host=h1")
    found = lab.hosts["h1"].vsctl(*words).split()
    return sorted(word.removeprefix("iface-id=") for word in found if word.startswith("iface-id="))


def pings(driver: ContainerDriver, uuid: str, address: str, *words: str) -> bool:
    """Return whether an address answers a container; the first packet to a new host may be lost."""
    done = driver.node.runtime.run_inside(uuid, "/bin/busybox", "ping", "-c", "2", "-W", "1", *words, address)
    return done.returncode == 0


def reads(driver: ContainerDriver, uuid: str) -> str:
    """Return what a container reads at bo's; "" where it does not connect."""
    return inside(driver, uuid, f"busybox nc -w 2 {BO.ip_address} 80 < /dev/null || true")


def test_a_container_meets_a_guest_of_another_host_as_its_group_allows(
    make_driver: Callable[..., ContainerDriver], lab: ovn.Lab, database: NorthboundDatabase, bo: NetworkNamespace
) -> None:
    driver, guest = make_driver(), guest_of(str(uuid4()), IMAGE, ports=(ANA,))
    uuid = guest.instance_uuid
    driver.spawn(guest, RecordedProgress())
    wait_until("northd says so", lambda: lab.nb("get", "Logical_Switch_Port", ANA.port_uuid, "up").strip() == "true")
    assert plugged(lab) == [ANA.port_uuid]
    assert driver.report().capabilities["guest_network"] == "ovn"
    assert "mtu 1442" in inside(driver, uuid, "ip link show eth0")
    wait_until("bo answers ana", lambda: pings(driver, uuid, BO.ip_address))
    assert bo.pings(ANA.ip_address, count=2)
    with serving(bo):
        assert reads(driver, uuid) == ""
        database.write(desired(topology(LETS_WEB)))
        lab.nb("--wait=hv", "sync")
        assert reads(driver, uuid) == "hello"
    inside(driver, uuid, "ip address add 10.66.0.77/24 dev eth0")
    assert not pings(driver, uuid, BO.ip_address, "-I", "10.66.0.77"), "it sends from its own address only"
    driver.stop()


def test_ports_are_plugged_while_their_container_runs(
    make_driver: Callable[..., ContainerDriver], lab: ovn.Lab
) -> None:
    driver, guest = make_driver(), guest_of(str(uuid4()), IMAGE, ports=(ANA,))
    uuid = guest.instance_uuid
    driver.spawn(guest, RecordedProgress())
    driver.attach_interface(uuid, SECOND)
    assert plugged(lab) == [ANA.port_uuid, SECOND.port_uuid]
    driver.stop()
    driver = make_driver()
    assert plugged(lab) == [ANA.port_uuid, SECOND.port_uuid], "a new agent finds them"
    driver.detach_interface(uuid, SECOND.port_uuid)
    assert plugged(lab) == [ANA.port_uuid]

    driver.power_off(uuid, 0.0)
    assert plugged(lab) == []
    driver.power_on(guest)
    lab.await_up(ANA.port_uuid)
    os.kill(driver.node.runtime.pid(uuid), signal.SIGKILL)
    is_off = [GuestInfo(uuid, PowerState.SHUTDOWN)]
    wait_until("it is off", lambda: driver.guests() == is_off, WAIT_SECONDS, details=driver.guests)
    driver.stop()
    vsctl = lab.hosts["h1"].vsctl
    vsctl("add-port", BRIDGE, "theirs", "--", "set", "Interface", "theirs", "type=internal")
    driver = make_driver()
    assert plugged(lab) == [], "it is gone with its container"
    assert "theirs" in vsctl("list-ports", BRIDGE).split()
    vsctl("del-port", "theirs")
    driver.power_on(guest)
    lab.await_up(ANA.port_uuid)
    assert plugged(lab) == [ANA.port_uuid]
    driver.stop()


def test_a_container_whose_port_another_host_has_is_not_started(
    make_driver: Callable[..., ContainerDriver], lab: ovn.Lab
) -> None:
    driver, port = make_driver(plug_seconds=1.0), replace(ANA, port_uuid=BO.port_uuid)
    with pytest.raises(DriverError, match="OVN has not set up port port-bo on chassis h1 within 1 seconds"):
        driver.spawn(guest_of(str(uuid4()), IMAGE, ports=(port,)), RecordedProgress())
    assert driver.guests() == []
    assert plugged(lab) == []
    driver.stop()


def test_missing_requirements_of_ovn_are_named_at_the_start(
    make_driver: Callable[..., ContainerDriver], lab: ovn.Lab
) -> None:
    vsctl = lab.hosts["h1"].vsctl
    vsctl("set", "Open_vSwitch", ".", "external-ids:system-id=h7")
    with pytest.raises(DriverError, match=r"guest_network: ovn cannot be had here: the chassis is named 'h7'"):
        make_driver()
    vsctl("set", "Open_vSwitch", ".", "external-ids:system-id=h1")
