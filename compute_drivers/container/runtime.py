"""The OCI runtime: the one program that knows which containers there are and what they do."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compute_drivers import programs
from compute_drivers.host_places import files
from conductor.core.errors import DriverError
from conductor.core.states import PowerState

SECONDS = 60.0
POLL_SECONDS = 0.05
MESSAGE = re.compile(r'msg="(.*)"')
STATES: Mapping[str, PowerState] = {
    "creating": PowerState.NOSTATE,
    "created": PowerState.NOSTATE,
    "running": PowerState.RUNNING,
    "pausing": PowerState.PAUSED,
    "paused": PowerState.PAUSED,
    "stopped": PowerState.SHUTDOWN,
}


class Runtime:
    """Speaks the command line that runc and crun have in common. Raises DriverError wherever it fails."""

    def __init__(self, program: str, root: Path) -> None:
        self._program = program
        self._root = root

    def check(self) -> tuple[int, int, int]:
        """Its version."""
        said = self._must("tell its version", "--version").decode(errors="replace")
        words = said.split()
        try:
            major, minor, patch = words[words.index("version") + 1].split("+")[0].split("-")[0].split(".")[:3]
            return int(major), int(minor), int(patch)
        except (ValueError, IndexError):
            raise DriverError(f"The program {self._program} is no container runtime: it tells no version.") from None

    def states(self) -> dict[str, PowerState]:
        """By uuid, of every container that was begun."""
        said = self._must("list its containers", "list", "--format", "json")
        try:
            found: list[dict[str, Any]] = json.loads(said) or []
            return {one["id"]: STATES.get(one["status"], PowerState.NOSTATE) for one in found}
        except (ValueError, KeyError, TypeError):
            raise DriverError("The container runtime did not say which containers it has.") from None

    def state(self, name: str) -> PowerState | None:
        found = self._found(name)
        return None if found is None else STATES.get(found["status"], PowerState.NOSTATE)

    def pid(self, name: str) -> int:
        """Of its init."""
        found = self._found(name)
        if not found or not found.get("pid"):
            raise DriverError("The container ended before it was started.")
        return int(found["pid"])

    def create(self, name: str, bundle: Path, console: Path) -> None:
        """What the container says goes to the end of `console`, and the runtime's own complaints do not."""
        with files("The console of the guest could not be opened"), console.open("ab") as log:
            console.chmod(0o600)
            size = log.tell()
            words = [*self._words("create"), "--bundle", str(bundle), name]
            try:
                done = subprocess.run(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=SECONDS, check=False
                )
            except subprocess.TimeoutExpired:
                raise DriverError("The container runtime did not create the container in time.") from None
            except OSError as error:
                raise programs.not_there(self._program, error) from None
            if done.returncode:
                complaint = console.read_bytes()[size:]
                log.truncate(size)
                raise DriverError(f"The container runtime could not create the container: {_plain(complaint)}.")

    def start(self, name: str) -> None:
        self._must("start the container", "start", name)

    def pause(self, name: str) -> None:
        self._must("pause the container", "pause", name)

    def resume(self, name: str) -> None:
        self._must("let the container go on", "resume", name)

    def signal(self, name: str, signal: str) -> None:
        """To its init. One that ended meanwhile hears nothing."""
        programs.run(*self._words("kill"), name, signal, seconds=SECONDS)

    def run_inside(self, name: str, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return programs.run(*self._words("exec"), name, *words, given=given, seconds=SECONDS)

    def open_shell(self, name: str, meeting_place: Path) -> None:
        """A shell inside, whose terminal is handed over at the socket `meeting_place`."""
        words = ("--detach", "--tty", "--console-socket", str(meeting_place), name, "/bin/sh")
        self._must("open a shell in the container", "exec", *words)

    def end(self, name: str) -> None:
        """However it is: afterwards there is no such container."""
        state = self.state(name)
        if state is None:
            return
        if state is PowerState.PAUSED:
            self.signal(name, "KILL")  # it dies before it does anything else
            programs.run(*self._words("resume"), name, seconds=SECONDS)  # runtimes differ in whether KILL wakes it
        deadline = time.monotonic() + SECONDS
        while programs.run(*self._words("delete"), "--force", name, seconds=SECONDS).returncode:
            if self.state(name) is None:
                return
            if time.monotonic() >= deadline:
                raise DriverError("The container runtime could not end the container.")
            time.sleep(POLL_SECONDS)

    def _found(self, name: str) -> dict[str, Any] | None:
        done = programs.run(*self._words("state"), name, seconds=SECONDS)
        if done.returncode:
            if b"does not exist" in done.stderr:
                return None
            raise DriverError(f"The container runtime could not look at the container: {_plain(done.stderr)}.")
        try:
            return dict(json.loads(done.stdout))
        except ValueError:
            raise DriverError("The container runtime did not say how the container is.") from None

    def _must(self, doing: str, *words: str) -> bytes:
        done = programs.run(*self._words(*words), seconds=SECONDS)
        if done.returncode:
            raise DriverError(f"The container runtime could not {doing}: {_plain(done.stderr)}.")
        return done.stdout

    def _words(self, *words: str) -> tuple[str, ...]:
        return (self._program, "--root", str(self._root), *words)


def _plain(complaint: bytes) -> str:
    """The innermost of what is said last, without the machine's paths."""
    line = programs.last_line(complaint)
    found = MESSAGE.search(line)
    parts = (found[1].replace('\\"', "") if found else line).split(": ")
    kept = [part.strip(' "') for part in parts if "/" not in part]
    return ": ".join(kept[-2:]) or "no reason given"
