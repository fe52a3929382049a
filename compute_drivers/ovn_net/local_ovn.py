"""OVN and Open vSwitch for one machine: host, gateway and control plane at once, in a folder of its own.

The machine gets the bridge `br-novella` with the gateway's address of the external network, so that floating IPs answer
on it. Open vSwitch also makes two devices without addresses, `br-int` and `ovs-netdev`. Nothing else of the
machine's network changes. Open vSwitch works in user space: it needs no module of the kernel.

Everything is created anew at each start: the projection writes the networks, and the host plugs the ports.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from ipaddress import IPv4Interface, ip_network
from pathlib import Path

from compute_drivers import programs, taps
from compute_drivers.ovn_net.daemons import (
    SOCKET,
    Daemon,
    chassis_settings,
    create_database,
    database,
    environment,
)
from compute_drivers.ovn_net.integration_bridge import BRIDGE
from conductor.core.errors import DriverError

log = logging.getLogger(__name__)

SWITCH = "ovs-vswitchd"
OUTSIDE = "br-novella"
# Devices of Open vSwitch: a second one in this network namespace would use the same ones.
DEVICES = (OUTSIDE, BRIDGE, "ovs-netdev")
MARK = "novella "  # begins the alias of our devices; the folder follows
KERNEL_DATAPATH = "ovs-system"
# One process of this network namespace has it; the kernel releases it with the process.
LOCK = "\0novella-local-ovn"
TUNNEL_ADDRESS = "127.0.0.1"  # there is no other host
PROGRAMS = ("ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-appctl", "ovs-vswitchd", "ovn-northd", "ovn-nbctl")
REQUIRED = (*PROGRAMS, "ovn-controller", "ip", "ethtool")
FAILED = "OVN could not be configured"
SECONDS = "--timeout=30"


class CannotStart(DriverError):
    """OVN cannot be started on this machine. The message is a clause with the reason."""


@dataclass(frozen=True)
class LocalOvn:
    """OVN of this machine. Its chassis is `host`, and its databases, sockets and logs are in `folder`.

    Attributes:
        physical_network: The name by which networks are connected with the bridge.
        address: The address of the machine on the bridge, with the external network's length of prefix.
    """

    folder: Path
    host: str
    physical_network: str
    address: str

    @property
    def northbound(self) -> str:
        return f"unix:{self._of('nb') / SOCKET}"

    @property
    def southbound(self) -> str:
        return f"unix:{self._of('sb') / SOCKET}"

    @property
    def host_options(self) -> Mapping[str, str]:
        """Options of the libvirt driver for the host."""
        folder = str(self._of("host"))
        return {"guest_network": "ovn", "ovs_run_dir": folder, "ovn_run_dir": folder}

    def start(self) -> socket.socket:
        """Start all daemons. Pass the returned lock to `stop`. Raises CannotStart."""
        self._require_programs()
        lock = _lock()
        try:
            self._remove()  # a killed process of this folder may have left devices
            self._require_room()
            self._start()
        except (DriverError, OSError) as error:
            self.stop(lock)
            reason = error.message if isinstance(error, DriverError) else str(error)
            raise CannotStart(reason.rstrip(".")) from error
        except BaseException:
            self.stop(lock)
            raise
        return lock

    def repair(self) -> None:
        """Start daemons again that have ended. Raises DriverError."""
        is_new_switch = False
        for daemon in self._daemons():
            if daemon.is_running() and not (is_new_switch and daemon.program == "ovn-controller"):
                continue
            log.warning("daemon of OVN is started again: %s", daemon.pid_path)
            daemon.stop()  # the controller of an earlier switch reconnects late
            daemon.start()
            is_new_switch = is_new_switch or daemon.program == SWITCH

    def stop(self, lock: socket.socket) -> None:
        """End all processes, and remove the devices and the folder."""
        with lock:
            try:
                self._remove()
            except (DriverError, OSError):
                log.exception("OVN of this machine could not be removed; the next start tries again")

    # -- what is needed

    def _require_programs(self) -> None:
        if os.geteuid() != 0:
            raise CannotStart("only root may change the network of this machine")
        missing = sorted({programs.PACKAGES[one] for one in REQUIRED if shutil.which(one) is None})
        if missing:
            raise CannotStart(f"not installed here: {', '.join(missing)}")
        if find_spec("ovsdbapp") is None:
            raise CannotStart("a client is missing: pip install 'novella[ovn]'")
        if not taps.TUN.exists():
            raise CannotStart(f"{taps.TUN} is not there")

    def _require_room(self) -> None:
        """Raise CannotStart if Open vSwitch already runs, or the machine uses the addresses."""
        there = sorted(_links().keys() & {*DEVICES, KERNEL_DATAPATH})
        if there:
            raise CannotStart(f"Open vSwitch is in use on this machine already (device {', '.join(there)})")
        wanted = IPv4Interface(self.address).network
        routes = json.loads(programs.check_output("Routes could not be listed", "ip", "-4", "-json", "route") or b"[]")
        for destination in (route["dst"] for route in routes if route["dst"] != "default"):
            if ip_network(destination, strict=False).overlaps(wanted):
                raise CannotStart(f"this machine has a route to {destination}, which overlaps {wanted}")

    # -- processes

    def _of(self, name: str) -> Path:
        return self.folder / name

    def _daemons(self) -> Sequence[Daemon]:
        """Return all daemons in the order of their start."""
        host = self._of("host")
        databases = (f"--ovnnb-db={self.northbound}", f"--ovnsb-db={self.southbound}")
        return (
            database(self._of("nb")),
            database(self._of("sb")),
            Daemon(self._of("northd"), ("ovn-northd", *databases)),
            database(host),
            _switch(self.folder),
            Daemon(host, ("ovn-controller", f"unix:{host / SOCKET}")),
        )

    def _start(self) -> None:
        for name, schema in (("nb", "nb"), ("sb", "sb"), ("host", "vswitch")):
            create_database(self._of(name), schema)
        self._of("northd").mkdir(mode=0o700)
        *central, switch_database, switch, controller = self._daemons()
        for daemon in (*central, switch_database):
            daemon.start()
        for program, remote in (("ovn-nbctl", self.northbound), ("ovn-sbctl", self.southbound)):
            programs.check_output(FAILED, program, f"--db={remote}", SECONDS, "init")
        self._vsctl("--no-wait", "init")
        mapping = f"external-ids:ovn-bridge-mappings={json.dumps(f'{self.physical_network}:{OUTSIDE}')}"
        settings = chassis_settings(self.host, self.southbound, TUNNEL_ADDRESS)
        self._vsctl("--no-wait", "set", "Open_vSwitch", ".", *settings, mapping)
        switch.start()
        for bridge, mode in ((BRIDGE, "secure"), (OUTSIDE, "standalone")):
            self._vsctl("add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type=netdev", f"fail-mode={mode}")
        for device in DEVICES:
            programs.check_output(FAILED, "ip", "link", "set", device, "alias", f"{MARK}{self.folder}")
        programs.check_output(FAILED, "ip", "address", "add", self.address, "dev", OUTSIDE)
        taps.start(OUTSIDE, failure=FAILED)
        controller.start()

    def _vsctl(self, *words: str) -> None:
        programs.check_output(FAILED, "ovs-vsctl", f"--db=unix:{self._of('host') / SOCKET}", SECONDS, *words)

    # -- removal

    def _remove(self) -> None:
        """Remove whatever a start of this folder has made, and devices of ours whose switch has ended.

        Raises DriverError, OSError.
        """
        host = self._of("host")
        for daemon in reversed(self._daemons()):
            if daemon.program == SWITCH and daemon.is_running():  # only then it removes its devices
                with suppress(DriverError):
                    programs.run(*environment(host), "ovs-appctl", SECONDS, "-t", SWITCH, "exit", "--cleanup")
            daemon.stop()
        for device, alias in _links().items():
            if alias.startswith(MARK) and not _switch(Path(alias.removeprefix(MARK))).is_running():
                programs.check_output("A device could not be removed", "ip", "link", "delete", device)
        if self.folder.exists():
            shutil.rmtree(self.folder)


def _switch(folder: Path) -> Daemon:
    """Return the switch of the OVN in this folder."""
    host = folder / "host"
    return Daemon(host, (SWITCH, f"unix:{host / SOCKET}", "--disable-system"))


def _lock() -> socket.socket:
    """Take the lock that only one local OVN of the machine can have. Raises CannotStart."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(LOCK)
    except OSError:
        lock.close()
        raise CannotStart("another Novella on this machine has it") from None
    return lock


def _links() -> dict[str, str]:
    """Return the alias of each device of this machine, by name. Raises DriverError."""
    output = programs.check_output("The devices could not be listed", "ip", "-json", "link", "show")
    return {link["ifname"]: link.get("ifalias", "") for link in json.loads(output or b"[]") if "ifname" in link}
