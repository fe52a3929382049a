"""Open vSwitch's bridge `br-int` on this host, which ovn-controller programs."""

from __future__ import annotations

import json
from pathlib import Path

from compute_drivers import programs, taps
from conductor.core.errors import DriverError

BRIDGE = "br-int"
# Mark our ports among those of others, with the name of the host, and the guest of each.
MARK, GUEST_MARK = "novella-host", "novella-guest"
SECONDS = 20
UNPLUG_FAILED = "The port could not be unplugged"
EXIT_BY_ALARM = -14  # of ovs-vsctl, at the end of its --timeout


class IntegrationBridge:
    """The host's ports in `br-int`. OVN knows each by the id of its logical port (`iface-id`)."""

    def __init__(self, host: str, ovs_run_dir: Path, ovn_run_dir: Path) -> None:
        self._host = host
        self._ovs_run_dir = ovs_run_dir
        self._ovn_run_dir = ovn_run_dir

    def missing(self) -> str:
        """Return the reason why OVN cannot serve this host; "" if it can. Raises DriverError without programs."""
        if not taps.TUN.exists():
            return f"{taps.TUN} is not there"
        if programs.run(*self._vsctl("show")).returncode:
            return "Open vSwitch's database does not answer (ovsdb-server)"
        if not _answers(self._ovs_run_dir, "ovs-vswitchd"):
            return "Open vSwitch does not run (ovs-vswitchd)"
        if not _answers(self._ovn_run_dir, "ovn-controller"):
            return "ovn-controller does not run"
        if programs.run(*self._vsctl("br-exists", BRIDGE)).returncode:
            return f"Open vSwitch has no bridge {BRIDGE}, which ovn-controller makes"
        chassis = self._chassis()
        return "" if chassis == self._host else f"the chassis is named {chassis!r} (system-id), not {self._host!r}"

    def ports(self, guest: str = "") -> set[str]:
        """Return the devices of our ports, or of one guest's. Raises DriverError."""
        marks = {MARK: self._host, **({GUEST_MARK: guest} if guest else {})}
        conditions = (f"external_ids:{key}={_quoted(value)}" for key, value in marks.items())
        found = ("--format=json", "--columns=name", "find", "Interface", *conditions)
        output = programs.check_output("The ports could not be listed", *self._vsctl(*found))
        return {str(row[0]) for row in json.loads(output)["data"]}

    def add(self, device: str, logical_port: str, guest: str = "", failure: str = taps.PLUG_FAILED) -> None:
        """Make the device the logical port, if it is not. Raises DriverError."""
        marks = {"iface-id": logical_port, MARK: self._host, **({GUEST_MARK: guest} if guest else {})}
        values = (f"external_ids:{key}={_quoted(value)}" for key, value in marks.items())
        words = ("--may-exist", "add-port", BRIDGE, device, "--", "set", "Interface", device, *values)
        programs.check_output(failure, *self._vsctl(*words))

    def remove(self, device: str) -> None:
        """Raises DriverError."""
        programs.check_output(UNPLUG_FAILED, *self._vsctl("--if-exists", "del-port", BRIDGE, device))

    def await_installed(self, device: str, logical_port: str, seconds: float) -> None:
        """Wait until OVN has the port's flows on this host. Raises DriverError after `seconds`."""
        words = ("wait-until", "Interface", device, "external_ids:ovn-installed=true")
        limit = max(1, round(seconds))
        done = programs.run(*self._vsctl(*words, seconds=limit), seconds=limit + programs.SECONDS)
        if done.returncode == EXIT_BY_ALARM:
            raise DriverError(
                f"OVN has not set up port {logical_port} on chassis {self._host} within {limit} seconds: "
                "it does not know the port, has bound it to another host, or is behind."
            )
        if done.returncode:
            raise DriverError(f"{taps.PLUG_FAILED}: {programs.last_line(done.stderr)}.")

    def _chassis(self) -> str:
        output = programs.check_output(
            "The name of the chassis could not be read",
            *self._vsctl("--if-exists", "get", "Open_vSwitch", ".", "external_ids:system-id"),
        )
        return output.decode().strip().strip('"')

    def _vsctl(self, *words: str, seconds: int = SECONDS) -> tuple[str, ...]:
        return ("ovs-vsctl", f"--db=unix:{self._ovs_run_dir}/db.sock", f"--timeout={seconds}", *words)


def _answers(run_dir: Path, program: str) -> bool:
    """Whether a daemon answers at the socket that is named after its process."""
    try:
        pid = (run_dir / f"{program}.pid").read_text().strip()
    except OSError:
        return False
    command = ("ovs-appctl", f"--timeout={SECONDS}", "-t", str(run_dir / f"{program}.{pid}.ctl"), "version")
    return programs.run(*command).returncode == 0


def _quoted(value: str) -> str:
    """Return a string of Open vSwitch's database language."""
    return json.dumps(value)
