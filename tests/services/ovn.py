"""OVN for one test: a central, and hosts in network namespaces on Open vSwitch's userspace datapath.

with ovn.lab(folder) as lab:
    h1, h2 = lab.add_host("h1"), lab.add_host("h2")
    lab.nb("ls-add", "net-a", "--", "lsp-add", "net-a", "port-1", "--", …)
    guest = lab.add_guest(h1, "port-1", "fa:16:3e:00:00:01", "10.0.0.11/24")
    guest.run("busybox", "ping", "-c1", "10.0.0.12")
    lab.central.northd.kill(); lab.central.northd.start()

The central listens on unix sockets, which processes in all namespaces reach, and on free ports of the loopback. All
processes and namespaces end with the lab. Root is needed.

With `is_secure` these ports have TLS. `lab.central.credentials` are the conductor's; each host has its own for the
southbound database, where clients have the role `ovn-controller`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from compute_drivers.ovn_net.daemons import chassis_settings, create_database, database
from tests.services import process
from tests.services.certificates import Authority, Credentials
from tests.services.namespaces import NetworkNamespace
from tests.waiting import wait_until

START_SECONDS = 120.0
# Geneve over IPv4 takes 58 bytes.
UNDERLAY_MTU, OUTSIDE_MTU = 1600, 1500
PHYSICAL_NETWORK = "physnet1"
OUTSIDE_ADDRESS = "198.51.100.1"
PACKAGES = {"ovs-vsctl": "openvswitch-switch", "ovn-nbctl": "ovn-common", "ovn-northd": "ovn-central"} | {
    "ovn-controller": "ovn-host",
    "ethtool": "ethtool",
}


@dataclass
class Daemon:
    """A program of OVN or Open vSwitch with its sockets in `folder`; it can be killed and started again."""

    folder: Path
    command: Sequence[object]
    answers: Callable[[], bool]
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The program, which is also the name of its log and of its files."""
        return next(str(word) for word in self.command if str(word).startswith(("ovs", "ovn")))

    @property
    def log_path(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, after `kill` or `stop` again, and wait until it answers."""
        self.stop()
        options = [f"--pidfile={self.folder / self.name}.pid", "-vconsole:info", "-vsyslog:off"]
        self._process = process.launch([*self.command, *options], self.log_path, environment_of(self.folder))
        process.await_answer(self._process, self.answers, self.log_path, START_SECONDS)

    def kill(self) -> None:
        if self._process is not None:
            process.end(self._process, signal.SIGKILL)

    def stop(self) -> None:
        """Stop it cleanly. Stopping twice does nothing."""
        if self._process is not None:
            process.end(self._process)
        self._process = None


@dataclass
class Central:
    """The northbound and southbound databases and northd."""

    nb: Daemon
    sb: Daemon
    northd: Daemon
    nb_port: int
    sb_port: int
    credentials: Credentials | None = None  # the conductor's

    @property
    def nb_remote(self) -> str:
        return f"unix:{self.nb.folder}/db.sock"

    @property
    def sb_remote(self) -> str:
        return f"unix:{self.sb.folder}/db.sock"

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        return self.nb, self.sb, self.northd


@dataclass
class Host:
    """A chassis. `folder` is its OVS_RUNDIR and OVN_RUNDIR; `name` its system-id."""

    name: str
    folder: Path
    address: str
    namespace: NetworkNamespace
    database: Daemon
    vswitchd: Daemon
    controller: Daemon
    credentials: Credentials | None = None

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        return self.database, self.vswitchd, self.controller

    def vsctl(self, *words: str) -> str:
        """Run `ovs-vsctl` on the host's database, and return its output."""
        return _output(["ovs-vsctl", "--timeout=60", *words], environment_of(self.folder))

    def flow_warnings(self) -> list[str]:
        """Return the matches and actions that ovn-controller could not compile. OVN accepts any without a message."""
        return [line for line in self.controller.log_path.read_text().splitlines() if "|lflow|WARN|" in line]


class Lab:
    """A central and hosts on one underlay, with an external network."""

    def __init__(self, folder: Path, stack: ExitStack, *, is_secure: bool = False) -> None:
        self.folder = folder
        self._authorities = _Authorities(folder / "authorities") if is_secure else None
        self.hosts: dict[str, Host] = {}
        self._stack = stack
        self._outside: NetworkNamespace | None = None
        self._underlay = self.add_namespace()
        _add_bridge(self._underlay, "under", UNDERLAY_MTU)
        self.central = self._start_central()

    def nb(self, *words: str) -> str:
        """Run `ovn-nbctl`, and return its output."""
        return _output(["ovn-nbctl", f"--db={self.central.nb_remote}", "--timeout=60", *words])

    def sb(self, *words: str) -> str:
        """Run `ovn-sbctl`, and return its output."""
        return _output(["ovn-sbctl", f"--db={self.central.sb_remote}", "--timeout=60", *words])

    def add_host(self, name: str) -> Host:
        """Start a chassis."""
        folder, address = self.folder / name, f"172.31.0.{11 + len(self.hosts)}"
        namespace = self.add_namespace()
        _plug_cable(namespace, "phys0", self._underlay, f"{name}-phys", "under", UNDERLAY_MTU)

        remote = f"unix:{folder}/db.sock"
        database = self._database(folder, "vswitch")
        vswitchd = self._daemon(folder, namespace.inside("ovs-vswitchd", remote))
        # The host sends only to the southbound database, which listens on the loopback of all tests.
        controller = self._daemon(folder, ["ovn-controller", remote])
        host = Host(name, folder, address, namespace, database, vswitchd, controller)
        host.vswitchd.command = [*host.vswitchd.command, "--disable-system"]
        host.vswitchd.answers = lambda: _answers(["ovs-appctl", "-t", "ovs-vswitchd", "version"], folder)
        host.controller.answers = lambda: _answers(["ovs-vsctl", "--timeout=1", "br-exists", "br-int"], folder)
        database.start()
        host.vsctl("--no-wait", "init")
        if self._authorities is not None:
            host.credentials = self._authorities.of_host(name)
            files = host.credentials.private_key, host.credentials.certificate, host.credentials.ca_certificate
            host.vsctl("--no-wait", "set-ssl", *map(str, files))
        settings = chassis_settings(name, self._southbound_of_hosts, address)
        host.vsctl("--no-wait", "set", "Open_vSwitch", ".", *settings)
        host.vswitchd.start()
        # The address of a tunnel must be on a bridge that holds the card: on the card itself no packet crosses.
        _add_physical_bridge(host, "br-phys", "phys0")
        namespace.ip("address", "add", f"{address}/24", "dev", "br-phys")
        namespace.ip("link", "set", "br-phys", "mtu", str(UNDERLAY_MTU), "up")
        host.controller.start()
        self.hosts[name] = host
        self.await_chassis(name)
        return host

    def await_chassis(self, name: str) -> None:
        """Wait until the southbound database lists the host."""
        wait_until(f"chassis {name} is listed", lambda: name in self.sb("--bare", "--columns=name", "list", "Chassis"))

    def connect_outside(self, *hosts: Host) -> NetworkNamespace:
        """Give hosts a card in the network outside, OVN's `physnet1`. Returns its namespace, with 198.51.100.1."""
        if self._outside is None:
            self._outside = self.add_namespace()
            _add_bridge(self._outside, "ext", OUTSIDE_MTU)
            self._outside.ip("address", "add", f"{OUTSIDE_ADDRESS}/24", "dev", "ext")
        for host in hosts:
            _plug_cable(host.namespace, "ext0", self._outside, f"{host.name}-ext", "ext", OUTSIDE_MTU)
            _add_physical_bridge(host, "br-ex", "ext0")
            host.vsctl("set", "Open_vSwitch", ".", f"external-ids:ovn-bridge-mappings={PHYSICAL_NETWORK}:br-ex")
        return self._outside

    def add_guest(
        self, host: Host, port_uuid: str, mac_address: str, address: str, gateway: str = ""
    ) -> NetworkNamespace:
        """Plug a namespace as a guest's card `eth0` into br-int, and wait until OVN has bound its port.

        Args:
            port_uuid: The name of the logical switch port, which exists.
            address: With the length of its prefix.
        """
        guest, device = self.add_namespace(), f"v-{port_uuid[:11]}"
        host.namespace.ip("link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", guest.name)
        host.namespace.ip("link", "set", device, "up")
        _checksum_all(guest, "eth0")
        guest.ip("link", "set", "eth0", "address", mac_address, "up")
        guest.ip("address", "add", address, "dev", "eth0")
        if gateway:
            guest.ip("route", "add", "default", "via", gateway)
        host.vsctl("add-port", "br-int", device, "--", "set", "Interface", device, f"external_ids:iface-id={port_uuid}")
        self.await_up(port_uuid)
        return guest

    def await_up(self, port_uuid: str) -> None:
        """Wait until OVN reports that the port is bound and its flows are there."""
        self.nb("wait-until", "Logical_Switch_Port", port_uuid, "up=true")

    def chassis_of(self, port: str) -> str:
        """Return the name of the host that has bound a port; "" for none."""
        chassis = self.sb("--bare", "--columns=chassis", "find", "Port_Binding", f"logical_port={port}").strip()
        return self.sb("--bare", "--columns=name", "list", "Chassis", chassis).strip() if chassis else ""

    def flow_warnings(self) -> list[str]:
        return [line for host in self.hosts.values() for line in host.flow_warnings()]

    def add_namespace(self) -> NetworkNamespace:
        """Return a namespace that is deleted with the lab."""
        made = NetworkNamespace.create("novella-ovn")
        self._stack.callback(made.delete)
        return made

    def _start_central(self) -> Central:
        folder = self.folder / "central"
        ports = {name: process.free_port() for name in ("nb", "sb")}
        if self._authorities is None:
            nb, sb = (self._database(folder / name, name, f"ptcp:{port}:127.0.0.1") for name, port in ports.items())
        else:
            nb_options, sb_options = self._authorities.of_databases()
            nb = self._database(folder / "nb", "nb", f"pssl:{ports['nb']}:127.0.0.1", options=nb_options)
            sb = self._database(folder / "sb", "sb", "db:OVN_Southbound,SB_Global,connections", options=sb_options)
        databases = [f"--ovn{name}-db=unix:{folder / name}/db.sock" for name in ports]
        northd = self._daemon(folder / "northd", ["ovn-northd", *databases])
        northd.answers = lambda: _answers(["ovn-appctl", "-t", "ovn-northd", "status"], northd.folder)
        central = Central(nb, sb, northd, *ports.values())
        for daemon in central.daemons:
            daemon.start()
        for program, remote in (("ovn-nbctl", central.nb_remote), ("ovn-sbctl", central.sb_remote)):
            _output([program, f"--db={remote}", "--timeout=60", "init"])
        if self._authorities is not None:
            central.credentials = self._authorities.of_conductors()
            listens = ["set-connection", "role=ovn-controller", f"pssl:{central.sb_port}:127.0.0.1"]
            _output(["ovn-sbctl", f"--db={central.sb_remote}", "--timeout=60", *listens])
        return central

    @property
    def _southbound_of_hosts(self) -> str:
        central = self.central
        return f"ssl:127.0.0.1:{central.sb_port}" if self._authorities is not None else central.sb_remote

    def _database(self, folder: Path, schema: str, *remotes: str, options: Sequence[str] = ()) -> Daemon:
        create_database(folder, schema)
        daemon = self._daemon(folder, [*database(folder, *remotes).command, *options])
        daemon.answers = lambda: _answers(["ovs-appctl", "-t", "ovsdb-server", "version"], folder)
        return daemon

    def _daemon(self, folder: Path, command: Sequence[object]) -> Daemon:
        daemon = Daemon(folder, command, lambda: True)
        self._stack.callback(daemon.stop)
        return daemon


class _Authorities:
    """One for the central and conductors, and one for hosts, which the northbound database does not trust."""

    def __init__(self, folder: Path) -> None:
        self._central, self._hosts = Authority(folder / "central"), Authority(folder / "hosts")
        self._both = folder / "both.pem"
        certificates = (authority.certificate.read_bytes() for authority in (self._central, self._hosts))
        self._both.write_bytes(b"".join(certificates))

    def of_databases(self) -> tuple[list[str], list[str]]:
        """Return the options of the northbound and of the southbound database's server."""
        return self._central.issue("nb").options, self._central.issue("sb", self._both).options

    def of_conductors(self) -> Credentials:
        return self._central.issue("conductor")

    def of_host(self, name: str) -> Credentials:
        return self._hosts.issue(name, self._central.certificate)


@contextmanager
def lab(folder: Path, *, is_secure: bool = False) -> Iterator[Lab]:
    """Yield a lab with a started central, and end whatever was started in it."""
    missing = {package for program, package in PACKAGES.items() if not shutil.which(program)}
    if missing:
        raise RuntimeError(f"OVN is not there: install Debian's {', '.join(sorted(missing))} (make test does)")
    with ExitStack() as stack:
        yield Lab(folder, stack, is_secure=is_secure)


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment in which programs of OVN and Open vSwitch find the sockets in `folder`."""
    return {**os.environ, "OVS_RUNDIR": str(folder), "OVN_RUNDIR": str(folder)}


def _output(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{command}: {done.stderr or done.returncode}"
    return done.stdout


def _answers(command: Sequence[str], folder: Path) -> bool:
    return subprocess.run(command, check=False, capture_output=True, env=environment_of(folder)).returncode == 0


def _add_bridge(namespace: NetworkNamespace, name: str, mtu: int) -> None:
    namespace.ip("link", "add", name, "type", "bridge")
    namespace.ip("link", "set", name, "mtu", str(mtu), "up")


def _add_physical_bridge(host: Host, bridge: str, nic: str) -> None:
    kind = ("datapath_type=netdev", "fail-mode=standalone")
    host.vsctl("add-br", bridge, "--", "set", "bridge", bridge, *kind, "--", "add-port", bridge, nic)


def _plug_cable(here: NetworkNamespace, nic: str, there: NetworkNamespace, peer: str, bridge: str, mtu: int) -> None:
    """Add a card to a namespace, with its other end in a bridge of another one."""
    there.ip(
        "link", "add", peer, "mtu", str(mtu), "type", "veth", "peer", "name", nic, "mtu", str(mtu), "netns", here.name
    )
    there.ip("link", "set", peer, "master", bridge, "up")
    here.ip("link", "set", nic, "up")
    _checksum_all(there, peer)


def _checksum_all(namespace: NetworkNamespace, device: str) -> None:
    """Have the kernel fill in checksums: Open vSwitch takes frames as they are, and TCP would never connect."""
    subprocess.run(namespace.inside("ethtool", "-K", device, "tx", "off"), check=True, capture_output=True)
