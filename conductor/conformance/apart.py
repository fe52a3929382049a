"""Asks plugins in a process of its own: whoever ends that process, or cannot be interrupted, is judged for it too."""

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
OVER = b"null"  # what the process says last; whoever leaves before, has ended it
MOST_BYTES = 65536

Tell = Callable[[Any], None]


class Ended(Exception):
    """The process went, or had to be ended, before it had said all. The text says how."""


def told_apart(work: Callable[[Tell], None], silent_seconds: float) -> Iterator[Any]:
    """What `work` tells, as JSON values. Raises `Ended` when its process goes, or says nothing for too long."""
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
        for line in _lines(read, process, silent_seconds):
            if line == OVER:
                return
            yield json.loads(line)
        raise Ended(process.how_it_ended())
    finally:
        os.close(read)
        process.end()


def _work(work: Callable[[Tell], None], write: int) -> NoReturn:
    """In the new process."""
    try:
        os.setsid()  # so that what it started ends with it
        work(lambda value: _tell(write, json.dumps(value).encode()))
        _tell(write, OVER)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _tell(write: int, line: bytes) -> None:
    rest = line + b"\n"
    while rest:
        rest = rest[os.write(write, rest) :]


class _Process:
    """The other process, until it was waited for."""

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
            for kill in (os.killpg, os.kill):  # it has no group of its own in its first moment
                with suppress(ProcessLookupError):
                    kill(self._pid, signal.SIGKILL)
            self._status = os.waitpid(self._pid, 0)[1]

    def how_it_ended(self) -> str:
        assert self._status is not None
        code = os.waitstatus_to_exitcode(self._status)
        return f"it ended its process by signal {-code}" if code < 0 else f"it ended its process with code {code}"


def _lines(read: int, process: _Process, silent_seconds: float) -> Iterator[bytes]:
    """What it says, line by line, until it has ended: whom it started may hold the pipe for longer."""
    part, heard = b"", time.monotonic()
    while True:
        has_ended = process.has_ended()  # asked first: its last words are there then
        is_readable = bool(select.select([read], [], [], 0 if has_ended else LOOK_SECONDS)[0])
        data = os.read(read, MOST_BYTES) if is_readable else b""
        if data:
            *whole, part = (part + data).split(b"\n")
            heard = time.monotonic()
            yield from whole
        elif has_ended:
            return
        elif time.monotonic() - heard > silent_seconds:
            raise Ended(f"it went on for {silent_seconds:g} seconds and could not be interrupted")
        elif is_readable:  # it has closed the pipe and goes on
            time.sleep(LOOK_SECONDS)
