"""What services share: a free port, a process that is ours to end, and waiting until it answers."""

from __future__ import annotations

import fcntl
import functools
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

STOP_SECONDS = 30.0


# Of each port that a run of tests on this machine has drawn one byte is locked here, until its process ends.
DRAWN = Path(tempfile.gettempdir()) / f"novella-ports-{os.getuid()}"
_drawn_here: set[int] = set()
_chance = random.SystemRandom()


@functools.cache
def _drawn() -> IO[bytes]:
    """Kept open: the kernel forgets all locks of a process as soon as it closes such a file."""
    return DRAWN.open("ab")


def free_port() -> int:
    """A port below those that the system gives to clients, and no one else's who asks here while this process lives.

    A client that knocks at a dead service of the loopback is given a port of its own each time. Were the service's
    among them, a client would sooner or later be given just that one, and the service could not come back. And what
    was drawn is listened at seconds later, or not for a while when it was killed: nobody else may draw it meanwhile.
    """
    lowest_of_clients = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = range(10_000, max(lowest_of_clients, 11_000))
    for port in _chance.sample(ports, len(ports)):
        if _is_ours_alone(port) and not listens(port) and _can_listen(port):
            return port
    raise RuntimeError(f"no port is free from {ports.start} to {ports.stop - 1}")


def _is_ours_alone(port: int) -> bool:
    """Draw it, unless it is drawn. Locks of records are a process's: those of its own it would get twice."""
    if port in _drawn_here:
        return False
    try:
        fcntl.lockf(_drawn(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _drawn_here.add(port)
    return True


def _can_listen(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def launch(command: Sequence[object], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own; what it says goes to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(
            [str(word) for word in command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=log.parent,
            start_new_session=True,
        )


def await_answer(process: subprocess.Popen[bytes], ask: Callable[[], bool], log: Path, seconds: float) -> None:
    """Wait until `ask` says yes; fails with the end of the log when the process dies first or takes too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        if ask():
            return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args} did not start: {log.read_text(errors='replace')[-2000:]}")


def end(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> None:
    """Send a signal to a process that may be gone already, and wait for its end; SIGKILL when it takes too long."""
    if process.poll() is None:
        process.send_signal(number)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Server:
    """A server that is one process; `folder` holds its data and its log. Subclasses say how it is started."""

    folder: Path
    port: int
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False, kw_only=True)

    @property
    def log_path(self) -> Path:
        return self.folder / "server.log"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def send_signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            end(self._process, signal.SIGKILL)

    def stop(self) -> None:
        """A clean end. Stopping twice does nothing."""
        if self._process is not None:
            end(self._process)
        self._process = None

    def run(
        self, command: Sequence[object], ask: Callable[[], bool], seconds: float, environment: Mapping[str, str]
    ) -> None:
        """End what runs, start `command`, and wait until `ask` says that it answers."""
        self.stop()
        self._process = launch(command, self.log_path, environment)
        await_answer(self._process, ask, self.log_path, seconds)
