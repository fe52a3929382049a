"""The lab of the OVN tests: two hosts whose guests reach each other over Geneve."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from tests.services import ovn
from tests.services.namespaces import NetworkNamespace
from tests.waiting import wait_until

PORTS = {"port-1": ("fa:16:3e:00:00:01", "10.0.0.11", "h1"), "port-2": ("fa:16:3e:00:00:02", "10.0.0.12", "h2")}


def reads(guest: NetworkNamespace, address: str, *, of: NetworkNamespace) -> bytes:
    """Return what a TCP client in `guest` reads from a server in `of`."""
    with of.entered():
        server = socket.create_server((address, 8080))
    with server, guest.entered(), socket.create_connection((address, 8080), timeout=60.0) as client:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"over Geneve")
        return client.recv(100)


def test_guests_of_two_hosts_reach_each_other_and_the_lab_removes_everything(tmp_path: Path) -> None:
    with ovn.lab(tmp_path / "ovn") as lab:
        hosts = {name: lab.add_host(name) for name in ("h1", "h2")}
        lab.nb("ls-add", "net-a")
        for port, (mac, address, host) in PORTS.items():
            lab.nb("lsp-add", "net-a", port, "--", "lsp-set-addresses", port, f"{mac} {address}")
            lab.nb("lsp-set-options", port, f"requested-chassis={host}")
        ana, bo = (
            lab.add_guest(hosts[host], port, mac, f"{address}/24") for port, (mac, address, host) in PORTS.items()
        )
        wait_until("a ping is answered: the first packet to a new host may be lost", lambda: ana.pings("10.0.0.12"))
        assert reads(bo, "10.0.0.11", of=ana) == b"over Geneve"
        outside = lab.connect_outside(*hosts.values())
        assert "physnet1:br-ex" in hosts["h1"].vsctl("get", "Open_vSwitch", ".", "external-ids:ovn-bridge-mappings")
        assert ovn.OUTSIDE_ADDRESS in outside.ip("address")
        lab.central.northd.kill()
        lab.central.northd.start()
        hosts["h2"].vswitchd.kill()
        hosts["h2"].vswitchd.start()
        wait_until("guests meet after a restart of a host's switch", lambda: ana.pings("10.0.0.12"))
        assert lab.flow_warnings() == []
        made = {ana.name, bo.name, outside.name, *(host.namespace.name for host in hosts.values())}
        daemons = [*lab.central.daemons, *(daemon for host in hosts.values() for daemon in host.daemons)]
        pids = {daemon.pid for daemon in daemons}
        assert made <= namespaces()
    assert not made & namespaces()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def namespaces() -> set[str]:
    return {line.split()[0] for line in subprocess.check_output(["ip", "netns", "list"], text=True).splitlines()}
