"""Runs the OCI runtime (runc or crun), which holds the state of all containers, and checks the machine's cgroups."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compute_drivers import programs
from compute_drivers.host_paths import os_errors_as
from conductor.core.errors import DriverError
from conductor.core.states import PowerState

SECONDS = 60.0
POLL_SECONDS = 0.05
UNABLE_TO_FREEZE = b"unable to freeze"
MESSAGE = re.compile(r'msg="(.*)"')
STATES: Mapping[str, PowerState] = {
    "creating": PowerState.NOSTATE,
    "created": PowerState.NOSTATE,
    "running": PowerState.RUNNING,
    "pausing": PowerState.PAUSED,
    "paused": PowerState.PAUSED,
    "stopped": PowerState.SHUTDOWN,
}

CGROUP_MOUNT = Path("/sys/fs/cgroup")
CGROUP_CONTROLLERS = ("cpu", "memory", "pids")
CGROUP_V2, CGROUP_V1 = "v2", "v1"


class Runtime:
    """Uses the command line that runc and crun share. Each method raises DriverError when the runtime fails."""

    def __init__(self, program: str, root: Path) -> None:
        self._program = program
        self._root = root

    def version(self) -> tuple[int, int, int]:
        """Return major, minor and patch version."""
        words = self._check_output("report its version", "--version").decode(errors="replace").split()
        try:
            major, minor, patch = words[words.index("version") + 1].split("+")[0].split("-")[0].split(".")[:3]
            return int(major), int(minor), int(patch)
        except (ValueError, IndexError):
            raise DriverError(f"The program {self._program} is no container runtime: it reports no version.") from None

    def states(self) -> dict[str, PowerState]:
        """Return the states of all containers by uuid."""
        output = self._check_output("list its containers", "list", "--format", "json")
        try:
            found: list[dict[str, Any]] = json.loads(output) or []
            return {one["id"]: STATES.get(one["status"], PowerState.NOSTATE) for one in found}
        except (ValueError, KeyError, TypeError):
            raise DriverError("The container runtime did not say which containers it has.") from None

    def state(self, name: str) -> PowerState | None:
        found = self._state_of(name)
        return None if found is None else STATES.get(found["status"], PowerState.NOSTATE)

    def pid(self, name: str) -> int:
        """Return the process id of the container's init."""
        found = self._state_of(name)
        if not found or not found.get("pid"):
            raise DriverError("The container ended before it was started.")
        return int(found["pid"])

    def create(self, name: str, bundle: Path, console: Path) -> None:
        """Create a container that appends its output to `console`; the runtime's own errors are removed from it."""
        with os_errors_as("The console of the guest could not be opened"), console.open("ab") as log:
            console.chmod(0o600)
            size = console.stat().st_size
            words = [*self._words("create"), "--bundle", str(bundle), name]
            try:
                done = subprocess.run(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=SECONDS, check=False
                )
            except subprocess.TimeoutExpired:
                raise DriverError("The container runtime did not create the container in time.") from None
            except OSError as error:
                raise programs.start_error(self._program, error) from None
            if done.returncode:
                message = console.read_bytes()[size:]
                log.truncate(size)
                raise DriverError(f"The container runtime could not create the container: {_plain(message)}.")

    def start(self, name: str) -> None:
        self._check_output("start the container", "start", name)

    def pause(self, name: str) -> None:
        """Freeze the container.

        With cgroups v1, runc gives up on a container whose processes come and go while it freezes them, which is
        likelier on a busy machine. The container runs on then, so the runtime is asked again.
        """
        deadline = time.monotonic() + SECONDS
        while True:
            done = programs.run(*self._words("pause"), name, seconds=SECONDS)
            if not done.returncode:
                return
            if UNABLE_TO_FREEZE not in done.stderr or time.monotonic() >= deadline:
                raise DriverError(f"The container runtime could not pause the container: {_plain(done.stderr)}.")
            time.sleep(POLL_SECONDS)

    def resume(self, name: str) -> None:
        self._check_output("let the container go on", "resume", name)

    def signal(self, name: str, signal: str) -> None:
        """Signal the container's init; nothing where it has ended."""
        programs.run(*self._words("kill"), name, signal, seconds=SECONDS)

    def run_inside(self, name: str, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return programs.run(*self._words("exec"), name, *words, given=given, seconds=SECONDS)

    def open_shell(self, name: str, console_socket: Path) -> None:
        """Start a shell in the container; its terminal is sent to the socket `console_socket`."""
        words = ("--detach", "--tty", "--console-socket", str(console_socket), name, "/bin/sh")
        self._check_output("open a shell in the container", "exec", *words)

    def end(self, name: str) -> None:
        """End and delete the container in whatever state it is."""
        state = self.state(name)
        if state is None:
            return
        if state is PowerState.PAUSED:
            self.signal(name, "KILL")  # takes effect before anything else after the resume
            programs.run(*self._words("resume"), name, seconds=SECONDS)  # runtimes differ in whether KILL resumes it
        deadline = time.monotonic() + SECONDS
        while programs.run(*self._words("delete"), "--force", name, seconds=SECONDS).returncode:
            if self.state(name) is None:
                return
            if time.monotonic() >= deadline:
                raise DriverError("The container runtime could not end the container.")
            time.sleep(POLL_SECONDS)

    def _state_of(self, name: str) -> dict[str, Any] | None:
        done = programs.run(*self._words("state"), name, seconds=SECONDS)
        if done.returncode:
            if b"does not exist" in done.stderr:
                return None
            raise DriverError(f"The container runtime could not look at the container: {_plain(done.stderr)}.")
        try:
            return dict(json.loads(done.stdout))
        except ValueError:
            raise DriverError("The container runtime did not say how the container is.") from None

    def _check_output(self, action: str, *words: str) -> bytes:
        done = programs.run(*self._words(*words), seconds=SECONDS)
        if done.returncode:
            raise DriverError(f"The container runtime could not {action}: {_plain(done.stderr)}.")
        return done.stdout

    def _words(self, *words: str) -> tuple[str, ...]:
        return (self._program, "--root", str(self._root), *words)


def _plain(message: bytes) -> str:
    """Return the innermost cause of the last line, without paths of the host."""
    line = programs.last_line(message)
    found = MESSAGE.search(line)
    parts = (found[1].replace('\\"', "") if found else line).split(": ")
    kept = [part.strip(' "') for part in parts if "/" not in part]
    return ": ".join(kept[-2:]) or "no reason given"


def cgroup_version(mount: Path = CGROUP_MOUNT) -> str:
    """Return v2 for one tree with all controllers; v1 for a tree each, also with an empty v2 tree beside them."""
    return CGROUP_V2 if (mount / "cgroup.controllers").is_file() else CGROUP_V1


def missing_cgroup_controllers(mount: Path = CGROUP_MOUNT) -> list[str]:
    """Return the controllers that limit containers and that the machine does not have."""
    if cgroup_version(mount) == CGROUP_V2:
        found = set((mount / "cgroup.controllers").read_text().split())
    else:
        found = {name for name in CGROUP_CONTROLLERS if (mount / name / "tasks").is_file()}
    return [name for name in CGROUP_CONTROLLERS if name not in found]
