"""Handles a message in a process of its own, which dies by SIGKILL or is stopped past its lease at a chosen place.

The process reports its effects on wire, hypervisor and checks at once, through a pipe: an effect that it does not reach
is not known. Its databases are files, and it opens them anew.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from django.db import connections

from tests.chaos import ledger

# Lists of the schedule to which a process reports.
REPORTED = ("wire", "answered", "applied", "failures", "trace", "wrong")
GUESTS, UNLOCKED = "guests", "unlocked"
MOST_BYTES = 1 << 20


@dataclass
class Fate:
    """The planned fault of a process at the n-th place that it reaches."""

    number: signal.Signals
    places_left: int

    def meet(self) -> None:
        """Die here, or sleep and continue, if this is the place; a sleeper must hold no row lock that others need."""
        self.places_left -= 1
        if self.places_left == 0:
            is_inside = any(connection.in_atomic_block for connection in connections.all(initialized_only=True))
            os.kill(os.getpid(), signal.SIGKILL if is_inside else self.number)


class _RecordedList(list[Any]):
    """A list of the schedule that reports additions."""

    def __init__(self, report: Callable[..., None], name: str, known: Iterable[Any]) -> None:
        super().__init__(known)
        self._record, self._name = report, name

    def append(self, item: Any) -> None:
        super().append(item)
        self._record(self._name, item)


class _Guests(dict[str, Any]):
    """The guests of the hypervisor, which lives on when its agent dies."""

    def __init__(self, report: Callable[..., None], known: dict[str, Any]) -> None:
        super().__init__(known)
        self._record = report

    def __setitem__(self, uuid: str, guest: Any) -> None:
        super().__setitem__(uuid, guest)
        self._record(GUESTS, [uuid, True])

    def pop(self, uuid: str, *default: Any) -> Any:
        self._record(GUESTS, [uuid, False])
        return super().pop(uuid, *default)


def take(world: Any, deliver: Callable[[], None], fate: Fate, meanwhile: Callable[[], None]) -> signal.Signals | None:
    """Have `deliver` done by a process with this fate, and `meanwhile` while it is stopped; the signal that it met.

    No connection may be open here: two processes that share one would share its locks.
    """
    connections.close_all()
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, MOST_BYTES)  # it is read only after the process is dead, stopped or done
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _live(world, deliver, fate, write)
    os.close(write)
    os.set_blocking(read, False)
    met = None
    _, status = os.waitpid(pid, os.WUNTRACED)
    reported = _read(world, read)
    if os.WIFSTOPPED(status):
        met = signal.SIGSTOP
        meanwhile()
        os.kill(pid, signal.SIGCONT)
        _, status = os.waitpid(pid, 0)
        reported = _read(world, read)
    os.close(read)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return signal.SIGKILL
    assert status == 0, f"a process ended with {status}: {reported[-2000:]}"
    return met


def _live(world: Any, deliver: Callable[[], None], fate: Fate, pipe: int) -> NoReturn:
    """Be that process."""

    def report(name: str, item: Any) -> None:
        os.write(pipe, f"{json.dumps([name, item])}\n".encode())

    code = 1
    try:
        for name in REPORTED:
            setattr(world, name, _RecordedList(report, name, getattr(world, name)))
        ledger.unlocked = _RecordedList(report, UNLOCKED, ())
        world.driver.running = _Guests(report, world.driver.running)
        world.fate = fate
        deliver()
        code = 0
    except BaseException as error:
        os.write(pipe, f"{json.dumps(['wrong', repr(error)])}\n".encode())
    finally:
        os._exit(code)


def _read(world: Any, pipe: int) -> str:
    """Apply the process's reports so far."""
    pieces = []
    while True:
        try:
            piece = os.read(pipe, 65536)
        except BlockingIOError:
            break
        if not piece:
            break
        pieces.append(piece)
    reported = b"".join(pieces).decode()
    for line in reported.splitlines():
        name, item = json.loads(line)
        if name == GUESTS:
            uuid, is_there = item
            if is_there:
                world.driver.running[uuid] = None
            else:
                world.driver.running.pop(uuid, None)
        elif name == UNLOCKED:
            ledger.unlocked.append(item)
        else:
            getattr(world, name).append(tuple(item) if isinstance(item, list) else item)
    return reported
