"""Helpers of services: a free port, a process to end, and waiting until it answers."""

from __future__ import annotations

import fcntl
import functools
import os
import random
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.waiting import WAIT_SECONDS, wait_until

STOP_SECONDS = WAIT_SECONDS


# Of each port that a run of tests on this machine has drawn one byte is locked here, until its process ends.
DRAWN = Path(tempfile.gettempdir()) / f"novella-ports-{os.getuid()}"
_drawn_here: set[int] = set()
_chance = random.SystemRandom()


@functools.cache
def _drawn() -> IO[bytes]:
    """Kept open: the kernel forgets all locks of a process as soon as it closes such a file."""
    return DRAWN.open("ab")


def free_port() -> int:
    """Return a port outside of the range for outgoing connections, unique among the callers of this process's lifetime.

    A client that connects to a dead service on loopback gets an outgoing port each time. If the service's port were in
    that range, a client would sooner or later get it, and the service could not start again. A drawn port is bound
    seconds later, or not for a while after a kill: meanwhile no other process may draw it.
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
    """Start a program in a session of its own; its output goes to `log`."""
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
    """Wait until `ask` is true; fails with the end of the log when the process dies first or takes too long."""

    def tail() -> str:
        return log.read_text(errors="replace")[-2000:]

    def has_ended_or_answers() -> bool:
        return process.poll() is not None or ask()

    wait_until(f"{process.args} answers", has_ended_or_answers, seconds, pause=0.05, details=tail)
    if process.poll() is not None:
        raise RuntimeError(f"{process.args} did not start: {tail()}")


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
        probe.settimeout(10.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Server:
    """A server that is one process; `folder` holds its data and its log. Subclasses define its start."""

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
        """Stop it cleanly. Stopping twice does nothing."""
        if self._process is not None:
            end(self._process)
        self._process = None

    def run(
        self, command: Sequence[object], ask: Callable[[], bool], seconds: float, environment: Mapping[str, str]
    ) -> None:
        """End the running process, start `command`, and wait until `ask` is true."""
        self.stop()
        self._process = launch(command, self.log_path, environment)
        await_answer(self._process, ask, self.log_path, seconds)
