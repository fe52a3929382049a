"""Calls of plugins of others, in processes of their own: one that does not come back in its time is killed."""

from __future__ import annotations

import atexit
import json
import logging
import operator
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from conductor.core.host_state import HostState, HostTable
from conductor.core.plugin_choice import PluginChoice
from conductor.core.scheduling.watching import Left, LeftBehind, NotAsked
from conductor.plugins.found import Registry
from conductor.scheduler import plugin_process
from conductor.scheduler.plugin_process import DONE, END, FORK, READY, Answer, Question, Start

log = logging.getLogger(__name__)

START_SECONDS = 60.0
# The path comes first: the module lies on it.
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from conductor.scheduler.plugin_process import main; main()"
)
MOST_SECONDS = 86_400.0
MOST_IDLE = 4
T = TypeVar("T")


class _Forker:
    """The process that forks those for plugins. It has loaded all but the plugins, so that a fork is quick."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        self._control.settimeout(START_SECONDS)
        given = (str(theirs.fileno()), json.dumps(sys.path))
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, *given], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        self._reply()

    def fork(self) -> tuple[int, socket.socket]:
        """A new process, and the link to it. Raises OSError or EOFError."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [FORK], [theirs.fileno()])
            return int(self._reply()), ours

    def end(self, pid: int) -> None:
        """Kill a process that it has forked, and whatever that has started."""
        self._control.sendall(END + b"%d" % pid)
        self._reply()

    def close(self) -> None:
        """End it, and with it all that it has forked."""
        self._control.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(START_SECONDS)

    def _reply(self) -> bytes:
        found = b""
        while not found.endswith(DONE):
            part = self._control.recv(100)
            if not part:
                raise EOFError
            found += part
        return found


class _Process:
    """One process for plugins: the plugins that it has loaded, and what it knows from the last question."""

    def __init__(self, found: Registry) -> None:
        self.found = found
        self._digest: str | None = None
        self._states: Sequence[HostState] = ()
        self._pid, self._link = _fork()
        try:
            ends = time.monotonic() + START_SECONDS
            start = Start(tuple(sys.path), found.import_names, found.options)
            self._link.settimeout(START_SECONDS)
            plugin_process.send(self._link, pickle.dumps(start))
            if plugin_process.receive(self._link, ends) != READY:
                raise EOFError
        except BaseException:
            self.end()
            raise

    def ask(self, apart: Apart, seconds: float, call: tuple[Any, ...]) -> Answer:
        """Raises TimeoutError, and EOFError or OSError where the process has ended."""
        hosts = next((one for one in call[1] if isinstance(one, HostTable)), None)
        states = tuple(hosts.states) if hosts is not None else self._states
        question = Question(
            seconds=seconds,
            choices=None if self._digest == apart.digest else apart.choices,
            states=_news(self._states, states),
            age_seconds=hosts.age_seconds if hosts is not None else 0.0,
            claimed_rows=frozenset(hosts.claimed_rows) if hosts is not None else frozenset(),
            body=plugin_process.packed(call),
        )
        data = pickle.dumps(question, pickle.HIGHEST_PROTOCOL)
        self._digest, self._states = apart.digest, states
        ends = time.monotonic() + seconds
        self._link.settimeout(seconds)
        plugin_process.send(self._link, data)
        return _answer(plugin_process.receive(self._link, ends), hosts)

    def is_alive(self) -> bool:
        """Whether it waits for a question, as far as this side can see."""
        self._link.settimeout(0)
        try:
            self._link.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def end(self) -> None:
        """Kill it, whatever it does."""
        self._link.close()
        _end(self._pid)


def _news(before: Sequence[HostState], now: Sequence[HostState]) -> Sequence[HostState] | Mapping[int, HostState]:
    """What the other side does not know yet: states never change, a host that has changed has another one."""
    if len(before) != len(now):
        return now
    changed = {row: now[row] for row, same in enumerate(map(operator.is_, before, now)) if not same}
    is_other = len(changed) * 2 > len(now) or any(
        (before[row].host, before[row].node) != (state.host, state.node) for row, state in changed.items()
    )
    return now if is_other else changed


def _answer(data: bytes, hosts: HostTable | None) -> Answer:
    """The answer. What cannot be read in this process is none."""
    try:
        found: Answer = plugin_process.Unpickler(data, lambda name: hosts).load()
    except Exception as error:
        return Answer(error=error)
    return found


@dataclass(frozen=True)
class Apart:
    """The plugins of one pipeline: those that were found, with what operators chose, and the digest of it."""

    found: Registry
    choices: Mapping[str, PluginChoice]
    digest: str

    def prepare(self) -> float:
        """See that a process is there; for so many seconds the plugin had to wait. Raises NotAsked."""
        began = time.monotonic()
        _put_back(_taken(self.found))
        return time.monotonic() - began

    def call(self, seconds: float, method: Callable[..., T], *args: Any) -> T:
        """What the call returns or raises, made in another process.

        Raises:
            LeftBehind: it did neither in so many seconds; its process was killed.
            Left: it has ended its process.
            NotAsked: there is no process for it.
        """
        process = _taken(self.found)
        try:
            answer = process.ask(self, min(seconds, MOST_SECONDS), (method, args))
        except TimeoutError:
            process.end()
            log.error("plugin was stopped: call=%s seconds=%.1f", getattr(method, "__qualname__", method), seconds)
            raise LeftBehind from None
        except (EOFError, OSError):
            process.end()
            raise Left("it ended its process") from None
        except BaseException:
            process.end()
            raise
        _put_back(process)
        for line in answer.lines:
            logging.getLogger(line["name"]).handle(logging.makeLogRecord(line))
        if answer.error is not None:
            raise answer.error
        return answer.value  # type: ignore[no-any-return]


_lock = threading.Lock()
_forker_lock = threading.Lock()
_idle: list[_Process] = []
_forker: _Forker | None = None


def _taken(found: Registry) -> _Process:
    """A process that has loaded these plugins. Raises NotAsked where it cannot be had."""
    with _lock:
        useless = [one for one in _idle if one.found is not found or not one.is_alive()]
        _idle[:] = [one for one in _idle if one not in useless]
        process = _idle.pop() if _idle else None
    for one in useless:
        one.end()
    if process is not None:
        return process
    try:
        return _Process(found)
    except (OSError, EOFError):
        log.exception("no process for plugins can be started")
        raise NotAsked("no process for it can be started") from None


def _put_back(process: _Process) -> None:
    with _lock:
        if len(_idle) < MOST_IDLE:
            _idle.append(process)
            return
    process.end()


def _fork() -> tuple[int, socket.socket]:
    global _forker
    with _forker_lock:
        if _forker is None:
            _forker = _Forker()
        try:
            return _forker.fork()
        except (OSError, EOFError):  # it has ended: once more with another
            _forker.close()
            _forker = None
            _forker = _Forker()
            return _forker.fork()


def _end(pid: int) -> None:
    """What was forked by one that has ended ends by itself."""
    with _forker_lock, suppress(OSError, EOFError):
        if _forker is not None:
            _forker.end(pid)


@atexit.register
def close() -> None:
    """End all processes for plugins; the next call starts new ones."""
    global _forker
    with _lock:
        _idle.clear()
    with _forker_lock:
        if _forker is not None:
            _forker.close()
            _forker = None


def _forget() -> None:
    """In a process that was forked: those of its parent are not its own."""
    global _lock, _forker_lock, _forker
    _lock, _forker_lock = threading.Lock(), threading.Lock()
    _idle.clear()
    if _forker is not None:
        _forker.process.returncode = 0  # which is not asked about here
        _forker = None


os.register_at_fork(after_in_child=_forget)
