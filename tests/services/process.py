"""What services share: a free port, a process that is ours to end, and waiting until it answers."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

STOP_SECONDS = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
