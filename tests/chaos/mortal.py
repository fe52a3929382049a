"""A message that a process of its own takes: at a place that the schedule has chosen it dies by SIGKILL, or is stopped
until its lease is long gone.

What such a process makes known, to the wire, to the hypervisor and to those who check, leaves it at once, through a
pipe: what it does not get to is not known. Its databases are files, and it opens them anew.
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

# What a process tells of, by the schedule's names: all are lists.
TOLD = ("wire", "answered", "applied", "failures", "trace", "wrong")
GUESTS, UNLOCKED = "guests", "unlocked"
MOST_BYTES = 1 << 20


@dataclass
class Fate:
    """What is to happen to a process at the how-manieth place that it comes to."""

    number: signal.Signals
    places_left: int

    def meet(self) -> None:
        """Die here, or sleep and go on, when this is the place; who is asleep must hold no row that others wait for."""
        self.places_left -= 1
        if self.places_left == 0:
            is_inside = any(connection.in_atomic_block for connection in connections.all(initialized_only=True))
            os.kill(os.getpid(), signal.SIGKILL if is_inside else self.number)


class _Told(list[Any]):
    """A list of the schedule's: what is added is told."""

    def __init__(self, tell: Callable[..., None], name: str, known: Iterable[Any]) -> None:
        super().__init__(known)
        self._tell, self._name = tell, name

    def append(self, item: Any) -> None:
        super().append(item)
        self._tell(self._name, item)


class _Guests(dict[str, Any]):
    """The guests of the hypervisor, which lives on when its agent dies."""

    def __init__(self, tell: Callable[..., None], known: dict[str, Any]) -> None:
        super().__init__(known)
        self._tell = tell

    def __setitem__(self, uuid: str, guest: Any) -> None:
        super().__setitem__(uuid, guest)
        self._tell(GUESTS, [uuid, True])

    def pop(self, uuid: str, *default: Any) -> Any:
        self._tell(GUESTS, [uuid, False])
        return super().pop(uuid, *default)


def take(world: Any, deliver: Callable[[], None], fate: Fate, meanwhile: Callable[[], None]) -> signal.Signals | None:
    """Have `deliver` done by a process with this fate, and `meanwhile` while it is stopped; the signal that it met.

    No connection may be open here: two processes that share one would share its locks.
    """
    connections.close_all()
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, MOST_BYTES)  # nobody reads before it is dead, stopped or done
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _live(world, deliver, fate, write)
    os.close(write)
    os.set_blocking(read, False)
    met = None
    _, status = os.waitpid(pid, os.WUNTRACED)
    said = _read(world, read)
    if os.WIFSTOPPED(status):
        met = signal.SIGSTOP
        meanwhile()
        os.kill(pid, signal.SIGCONT)
        _, status = os.waitpid(pid, 0)
        said = _read(world, read)
    os.close(read)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return signal.SIGKILL
    assert status == 0, f"a process ended with {status}: {said[-2000:]}"
    return met


def _live(world: Any, deliver: Callable[[], None], fate: Fate, pipe: int) -> NoReturn:
    """Be that process."""

    def tell(name: str, item: Any) -> None:
        os.write(pipe, f"{json.dumps([name, item])}\n".encode())

    code = 1
    try:
        for name in TOLD:
            setattr(world, name, _Told(tell, name, getattr(world, name)))
        ledger.unlocked = _Told(tell, UNLOCKED, ())
        world.driver.running = _Guests(tell, world.driver.running)
        world.fate = fate
        deliver()
        code = 0
    except BaseException as error:
        os.write(pipe, f"{json.dumps(['wrong', repr(error)])}\n".encode())
    finally:
        os._exit(code)


def _read(world: Any, pipe: int) -> str:
    """Make known here what the process has told so far."""
    pieces = []
    while True:
        try:
            piece = os.read(pipe, 65536)
        except BlockingIOError:
            break
        if not piece:
            break
        pieces.append(piece)
    said = b"".join(pieces).decode()
    for line in said.splitlines():
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
    return said
