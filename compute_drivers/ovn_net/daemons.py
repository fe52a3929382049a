"""Daemons of OVN and Open vSwitch, each with its database, sockets, log and pid file in a private folder."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compute_drivers import programs

# Debian's paths of the schemas of the databases.
SCHEMAS = {"nb": "ovn/ovn-nb", "sb": "ovn/ovn-sb", "vswitch": "openvswitch/vswitch"}
SOCKET, DATABASE = "db.sock", "conf.db"
STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Daemon:
    """A daemon; `command` begins with its program. A later process of Novella finds it by its pid file."""

    folder: Path
    command: Sequence[str]

    @property
    def program(self) -> str:
        return self.command[0]

    @property
    def pid_path(self) -> Path:
        return self.folder / f"{self.program}.pid"

    def start(self) -> None:
        """Start the daemon, and return when it answers. Raises DriverError."""
        options = (f"--pidfile={self.pid_path}", f"--log-file={self.folder / self.program}.log")
        quiet = ("-vconsole:off", "-vsyslog:off", "--detach")
        failure = f"{self.program} could not be started"
        programs.check_output(failure, *environment(self.folder), *self.command, *options, *quiet)

    def stop(self) -> None:
        """End the process in the pid file, if it is this daemon: another program may have the number by now."""
        try:
            handle = os.pidfd_open(int(self.pid_path.read_text()))
        except (OSError, ValueError):
            return
        try:
            if self.is_running():
                _end(handle)
        finally:
            os.close(handle)

    def is_running(self) -> bool:
        try:
            words = Path(f"/proc/{int(self.pid_path.read_text())}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return False
        return f"--pidfile={self.pid_path}".encode() in words


def database(folder: Path, *remotes: str) -> Daemon:
    """Return the server of the database in `folder`; it also listens on `remotes`."""
    listens = (f"--remote={remote}" for remote in (f"punix:{folder / SOCKET}", *remotes))
    return Daemon(folder, ("ovsdb-server", str(folder / DATABASE), *listens))


def create_database(folder: Path, schema: str) -> None:
    """Create an empty database in a new folder. Raises DriverError, OSError."""
    folder.mkdir(mode=0o700, parents=True)
    path = f"/usr/share/{SCHEMAS[schema]}.ovsschema"
    programs.check_output(
        "A database of OVN could not be created", "ovsdb-tool", "create", str(folder / DATABASE), path
    )


def chassis_settings(name: str, southbound: str, address: str) -> tuple[str, ...]:
    """Return settings of the table Open_vSwitch for a chassis in user space, with its tunnels at an address."""
    values = {
        "system-id": name,
        "hostname": name,
        "ovn-remote": southbound,
        "ovn-encap-type": "geneve",
        "ovn-encap-ip": address,
        "ovn-bridge-datapath-type": "netdev",
    }
    return tuple(f"external-ids:{key}={json.dumps(value)}" for key, value in values.items())


def environment(folder: Path) -> tuple[str, ...]:
    """Return the beginning of a command whose program finds the sockets in `folder`."""
    return ("env", f"OVS_RUNDIR={folder}", f"OVN_RUNDIR={folder}")


def _end(handle: int) -> None:
    """End a process by SIGTERM, or by SIGKILL when it takes too long."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return
        ended, _, _ = select.select([handle], [], [], STOP_SECONDS)
        if ended:
            return
