"""OVN with TLS: each host and the conductor have their own certificates and rights."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from conductor.network.ovn import health
from conductor.network.ovn.database import NorthboundDatabase, SouthboundDatabase
from conductor.network.ovn.desired import desired
from conductor.network.ovn.errors import DatabaseUnavailable
from conductor.network.ovn.tls import TlsFiles
from conductor.network.ovn.topology import CloudTopology, FixedAddress, NetworkSpec, PortSpec, SubnetSpec
from tests.services import ovn
from tests.services.namespaces import NetworkNamespace
from tests.waiting import WAIT_SECONDS, wait_until

ANA, BO = (
    PortSpec(
        f"port-{name}",
        "net-a",
        f"fa:16:3e:00:05:0{number}",
        is_port_security_enabled=False,
        host=host,
        addresses=(FixedAddress("a", f"10.0.0.1{number}"),),
    )
    for name, number, host in (("ana", 1, "h1"), ("bo", 2, "h2"))
)
TOPOLOGY = CloudTopology(
    networks=(NetworkSpec("net-a"),), subnets=(SubnetSpec("a", "net-a", "10.0.0.0/24"),), ports=(ANA, BO)
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ovn.Lab]:
    """Two hosts, each with its certificate."""
    with ovn.lab(tmp_path_factory.mktemp("ovn"), is_secure=True) as made:
        for name in ("h1", "h2"):
            made.add_host(name)
        yield made


@pytest.fixture(scope="module")
def tls(lab: ovn.Lab) -> TlsFiles:
    """The conductor's files."""
    assert lab.central.credentials is not None
    return TlsFiles(*astuple(lab.central.credentials))


@pytest.fixture(scope="module")
def guests(lab: ovn.Lab, tls: TlsFiles) -> Iterator[dict[str, NetworkNamespace]]:
    """Ana's and bo's guests, on the network that the conductor has written by TLS."""
    database = NorthboundDatabase(northbound(lab), tls=tls)
    database.write(desired(TOPOLOGY))
    yield {
        port.uuid: lab.add_guest(lab.hosts[port.host], port.uuid, port.mac_address, f"{address_of(port)}/24")
        for port in (ANA, BO)
    }
    database.close()


def address_of(port: PortSpec) -> str:
    return port.addresses[0].ip_address


def northbound(lab: ovn.Lab) -> str:
    return f"ssl:127.0.0.1:{lab.central.nb_port}"


def southbound(lab: ovn.Lab) -> str:
    return f"ssl:127.0.0.1:{lab.central.sb_port}"


def as_h1(lab: ovn.Lab, program: str, remote: str, *words: str) -> str:
    """Run a client of OVN with the certificate of h1; return its error output, "" for none."""
    credentials = lab.hosts["h1"].credentials
    assert credentials is not None
    command = [program, f"--db={remote}", "--timeout=10", *credentials.options, *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr or str(done.returncode)


def test_the_conductor_and_hosts_work_over_tls(
    lab: ovn.Lab, tls: TlsFiles, guests: dict[str, NetworkNamespace]
) -> None:
    wait_until("bo answers ana", lambda: guests[ANA.uuid].pings(address_of(BO)))
    database = SouthboundDatabase(southbound(lab), tls=tls)
    assert database.chassis().keys() == {"h1", "h2"}
    assert database.up_ports() == {ANA.uuid: "h1", BO.uuid: "h2"}
    database.close()
    found = health.read(northbound(lab), southbound(lab), seconds=WAIT_SECONDS, tls=tls)
    assert found.hosts.keys() == {"h1", "h2"}


def test_a_host_cannot_claim_the_port_of_another_host(lab: ovn.Lab, guests: dict[str, NetworkNamespace]) -> None:
    host = lab.hosts["h1"]
    host.vsctl("add-port", "br-int", "thief", "--", "set", "Interface", "thief", "type=internal",
               f"external_ids:iface-id={BO.uuid}")  # fmt: skip
    lab.nb("--wait=hv", "sync")
    assert lab.chassis_of(BO.uuid) == "h2"
    assert "ovn-installed" not in host.vsctl("get", "Interface", "thief", "external_ids")

    own = lab.sb("--bare", "--columns=_uuid", "find", "Chassis", "name=h1").strip()
    assert not as_h1(lab, "ovn-sbctl", southbound(lab), "set", "Port_Binding", BO.uuid, f"chassis={own}")
    wait_until("bo's host has taken it back", lambda: lab.chassis_of(BO.uuid) == "h2")
    wait_until("bo answers ana", lambda: guests[ANA.uuid].pings(address_of(BO)))
    host.vsctl("del-port", "br-int", "thief")


@pytest.mark.parametrize(
    "words",
    [
        ("set", "Chassis", "h2", "hostname=h1"),
        ("set", "Chassis", "h2", "other_config:ovn-bridge-mappings=physnet1:br-ex"),
        ("destroy", "Chassis", "h2"),
        ("set", "Chassis_Private", "h2", "nb_cfg=0"),
        ("create", "Chassis", "name=h9"),
        ("lsp-unbind", BO.uuid, "--", "set", "Port_Binding", BO.uuid, "mac=unknown"),
        ("set", "Datapath_Binding", ".", "tunnel_key=7"),
    ],
    ids=" ".join,
)
def test_a_host_cannot_change_the_rows_of_other_hosts(
    lab: ovn.Lab, guests: dict[str, NetworkNamespace], words: tuple[str, ...]
) -> None:
    error = as_h1(lab, "ovn-sbctl", southbound(lab), *words).replace("\\", "")
    assert 'RBAC rules for client "h1" role "ovn-controller" prohibit' in error


def test_a_host_has_no_access_to_the_northbound_database(lab: ovn.Lab) -> None:
    assert as_h1(lab, "ovn-nbctl", northbound(lab), "show")


def test_without_a_certificate_there_is_no_access(lab: ovn.Lab, tls: TlsFiles, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    for files, message in (
        (replace(tls, ca_certificate=bad), f"NOVELLA_OVN_CA_CERTIFICATE: {bad}"),
        (replace(tls, certificate=bad), f"NOVELLA_OVN_CERTIFICATE: {bad}"),
        (replace(tls, private_key=tmp_path / "none"), f"NOVELLA_OVN_CERTIFICATE: .* with the key {tmp_path}/none"),
    ):
        with pytest.raises(DatabaseUnavailable, match=message):
            NorthboundDatabase(northbound(lab), tls=files)
        with pytest.raises(DatabaseUnavailable, match=message):
            health.read(northbound(lab), southbound(lab), seconds=WAIT_SECONDS, tls=files)
