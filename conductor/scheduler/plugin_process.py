"""The process in which plugins of others run, and the small one that forks it: `main` of this module."""

from __future__ import annotations

import importlib
import io
import logging
import os
import pickle
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import django

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable
from conductor.core.plugin_choice import FILTER, WEIGHER, PluginChoice
from conductor.core.plugin_log import PREFIX
from conductor.core.scheduling.watching import Left, Nonsense, NotAsked, Raised, describe
from conductor.core.weigher import Weigher
from conductor.plugins.choosing import InForce, chosen
from conductor.plugins.found import PluginOptions, Registry
from conductor.plugins.loading import SHIPPED, load
from conductor.plugins.notes import place_of

FORK, END, OVER, DONE = b"f", b"e", b".", b"\n"
READY = b"ready"
MOST_BYTES = 65536
MOST_LINES = 200  # of a plugin's log, in one call
GRACE_SECONDS = 1.0  # for the one that asks, who ends it first
LEFT_OUT = (HostTable, Filter, Weigher)


@dataclass(frozen=True)
class Start:
    """What a new process loads."""

    path: Sequence[str]
    import_names: Sequence[str]
    options: PluginOptions


@dataclass(frozen=True)
class Question:
    """One call of a plugin. `body` is the call; what both sides know is not in it.

    `choices` is None where they are those of the question before. `states` are all hosts, or by row those that have
    changed since the question before.
    """

    seconds: float
    choices: Mapping[str, PluginChoice] | None
    states: Sequence[HostState] | Mapping[int, HostState]
    age_seconds: float
    claimed_rows: frozenset[int]
    body: bytes


@dataclass
class Answer:
    """What the call returned or raised, and the lines that its plugin put into the log meanwhile."""

    value: Any = None
    error: BaseException | None = None
    lines: list[dict[str, Any]] = field(default_factory=list)


class Pickler(pickle.Pickler):
    """Leaves out hosts and plugins, which the other side has, and takes errors apart."""

    def persistent_id(self, value: Any) -> tuple[str, ...] | None:
        if not isinstance(value, LEFT_OUT):
            return None
        if isinstance(value, HostTable):
            return ("hosts",)
        return (FILTER if isinstance(value, Filter) else WEIGHER, value.name)

    def reducer_override(self, value: Any) -> Any:
        """Errors of plugins are of classes that cannot be had everywhere: their kind and place is what counts."""
        if isinstance(value, Exception) and type(value) not in (Nonsense, NotAsked, Left, Raised):
            return Raised, (describe(value), place_of(value), "".join(traceback.format_exception(value)))
        return NotImplemented


class Unpickler(pickle.Unpickler):
    """Puts in what was left out."""

    def __init__(self, data: bytes, find: Callable[[tuple[str, ...]], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._find = find

    def persistent_load(self, name: Any) -> Any:
        return self._find(name)


def packed(value: Any) -> bytes:
    data = io.BytesIO()
    Pickler(data, pickle.HIGHEST_PROTOCOL).dump(value)
    return data.getvalue()


def send(link: socket.socket, data: bytes) -> None:
    """One message. Raises OSError."""
    link.sendall(struct.pack("!Q", len(data)) + data)


def receive(link: socket.socket, ends: float | None = None) -> bytes:
    """One message. Raises TimeoutError at `ends`, by the monotonic clock, and EOFError where no more will come."""
    (size,) = struct.unpack("!Q", _exactly(link, 8, ends))
    return _exactly(link, size, ends)


def _exactly(link: socket.socket, size: int, ends: float | None) -> bytes:
    found = bytearray()
    while len(found) < size:
        if ends is not None:
            link.settimeout(max(ends - time.monotonic(), 0.001))
        part = link.recv(min(size - len(found), 1 << 20))
        if not part:
            raise EOFError
        found += part
    return bytes(found)


class _Lines(logging.Handler):
    """What plugins put into the log, for the process that asks: its log is the one that is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.found) >= MOST_LINES:
            return
        text, trace = record.getMessage(), None
        if record.exc_info and record.exc_info[0]:
            text = f"{text} ({record.exc_info[0].__name__})"
            trace = "".join(traceback.format_exception(*record.exc_info))
        kept = ("name", "levelno", "levelname", "created", "pathname", "filename", "module", "lineno", "funcName")
        self.found.append({**{key: getattr(record, key) for key in kept}, "msg": text, "exc_text": trace})

    def take(self) -> list[dict[str, Any]]:
        taken, self.found = self.found, []
        return taken


class _Server:
    """Answers one question after another."""

    def __init__(self, found: Registry) -> None:
        self._found = found
        self._force: InForce = chosen(found, {})
        self._hosts = HostTable.from_states(())
        self._lines = _Lines()
        logger = logging.getLogger(PREFIX.rstrip("."))
        logger.handlers, logger.propagate = [self._lines], False

    def answer(self, question: Question) -> Answer:
        """Never raises: what the plugin raises is in the answer."""
        try:
            if question.choices is not None:
                self._force = chosen(self._found, question.choices)
            self._see(question)
            method, args = Unpickler(question.body, self._named).load()
            return Answer(method(*args), None, self._lines.take())
        except Exception as error:
            return Answer(None, error, self._lines.take())
        except BaseException as error:
            return Answer(None, Left(type(error).__name__), self._lines.take())

    def _see(self, question: Question) -> None:
        if not isinstance(question.states, Mapping):
            self._hosts = HostTable.from_states(question.states)
        elif question.states:
            self._hosts = self._hosts.with_rows(question.states)
        self._hosts = replace(self._hosts, age_seconds=question.age_seconds, claimed_rows=question.claimed_rows)

    def _named(self, name: tuple[str, ...]) -> Any:
        if name == ("hosts",):
            return self._hosts
        kind, called = name
        in_use: Sequence[Any] = self._force.filters if kind == FILTER else self._force.weighers
        brought: Sequence[Any] = self._found.brought_filters if kind == FILTER else self._found.brought_weighers
        for one in (*in_use, *brought):
            if one.name == called:
                return one
        raise NotAsked("it was not found in the process for plugins")


def serve(link: socket.socket) -> None:
    """Answer questions until the other side goes."""
    start: Start = pickle.loads(receive(link))
    sys.path[:] = start.path
    server = _Server(load(start.import_names, start.options))
    send(link, READY)
    while True:
        question: Question = pickle.loads(receive(link))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends it, should the one that asks not live to do so
        signal.setitimer(signal.ITIMER_REAL, question.seconds + GRACE_SECONDS)
        answer = server.answer(question)
        try:
            data = packed(answer)
        except Exception as error:
            data = packed(Answer(None, Nonsense(f"its answer cannot be used ({type(error).__name__})"), answer.lines))
        signal.setitimer(signal.ITIMER_REAL, 0)
        send(link, data)


def fork_for(control: socket.socket) -> None:
    """Fork a process at each request, and end those that it names. Runs no plugin, so it always answers."""
    children: set[int] = set()
    while True:
        data, links, _, _ = socket.recv_fds(control, MOST_BYTES, 1)
        if not data:
            for pid in children:
                _end(pid)
            return
        if data.startswith(FORK):
            pid = os.fork()
            if pid == 0:
                control.close()
                _serve_and_exit(socket.socket(fileno=links[0]))
            os.close(links[0])
            children.add(pid)
            control.sendall(b"%d" % pid + DONE)
        else:
            pid = int(data[len(END) :].strip())
            if pid in children:  # not waited for yet, so that no other process can have its number
                _end(pid)
                children.discard(pid)
            control.sendall(DONE)


def _serve_and_exit(link: socket.socket) -> None:
    code = 1
    try:
        os.setsid()  # what a plugin starts is in a group with it
        serve(link)
    except (EOFError, ConnectionError):
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _end(pid: int) -> None:
    for kill in (os.killpg, os.kill):  # it has no group of its own in its first moment
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it goes with the process that asks
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    django.setup()
    for name in SHIPPED:  # loaded once for all
        with suppress(Exception):  # which is logged where it is loaded
            importlib.import_module(name)
    control.sendall(DONE)
    fork_for(control)
