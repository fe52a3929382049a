"""Runs plugin code in a separate process: a plugin that ends it, or cannot be interrupted, fails its test too."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NoReturn

LOOK_SECONDS = 0.1
OVER = b"null"  # the last line of the process; one that ends before did not finish
MOST_BYTES = 65536

Report = Callable[[Any], None]


class CheckProcessEnded(Exception):
    """The process ended, or had to be ended, before it had finished. The text says how."""


def results_apart(work: Callable[[Report], None], timeout_seconds: float) -> Iterator[Any]:
    """Yield the JSON values that `work` reports. Raises `CheckProcessEnded` when its process ends or hangs."""
    sys.stdout.flush()
    sys.stderr.flush()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _work(work, write)
    os.close(write)
    process = _Process(pid)
    try:
        for line in _lines(read, process, timeout_seconds):
            if line == OVER:
                return
            yield json.loads(line)
        raise CheckProcessEnded(process.how_it_ended())
    finally:
        os.close(read)
        process.end()


def _work(work: Callable[[Report], None], write: int) -> NoReturn:
    """Run in the child process."""
    try:
        os.setsid()  # so that its child processes end with it
        work(lambda value: _write_line(write, json.dumps(value).encode()))
        _write_line(write, OVER)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _write_line(write: int, line: bytes) -> None:
    rest = line + b"\n"
    while rest:
        rest = rest[os.write(write, rest) :]


class _Process:
    """The child process, until it is reaped."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._status: int | None = None

    def has_ended(self) -> bool:
        if self._status is None:
            done, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = status if done else None
        return self._status is not None

    def end(self) -> None:
        if not self.has_ended():
            for kill in (os.killpg, os.kill):  # it has no group of its own at first
                with suppress(ProcessLookupError):
                    kill(self._pid, signal.SIGKILL)
            self._status = os.waitpid(self._pid, 0)[1]

    def how_it_ended(self) -> str:
        assert self._status is not None
        code = os.waitstatus_to_exitcode(self._status)
        return f"it ended its process by signal {-code}" if code < 0 else f"it ended its process with code {code}"


def _lines(read: int, process: _Process, timeout_seconds: float) -> Iterator[bytes]:
    """Yield its output by lines until it has ended: its own child processes may keep the pipe open longer."""
    part, heard = b"", time.monotonic()
    while True:
        has_ended = process.has_ended()  # checked first: its last output is available then
        is_readable = bool(select.select([read], [], [], 0 if has_ended else LOOK_SECONDS)[0])
        data = os.read(read, MOST_BYTES) if is_readable else b""
        if data:
            *whole, part = (part + data).split(b"\n")
            heard = time.monotonic()
            yield from whole
        elif has_ended:
            return
        elif time.monotonic() - heard > timeout_seconds:
            raise CheckProcessEnded(f"it went on for {timeout_seconds:g} seconds and could not be interrupted")
        elif is_readable:  # it has closed the pipe and goes on
            time.sleep(LOOK_SECONDS)
