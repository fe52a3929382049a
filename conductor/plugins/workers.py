"""Pool of worker processes for foreign plugins: a call that exceeds its time limit is killed."""

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
from weakref import WeakSet

from conductor.core.host_state import HostState, HostTable
from conductor.core.plugin_choice import PluginKindSettings
from conductor.core.scheduling.watching import NotCalled, PluginProcessEnded, PluginTimedOut
from conductor.plugins import worker_protocol
from conductor.plugins.registry import LoadParameters, SourceDescription, SourceKey
from conductor.plugins.worker_protocol import DONE, END, FORK, READY, AnswerUnpickler, CallResult, Start, WorkerCall

log = logging.getLogger(__name__)

START_SECONDS = 60.0
# The path comes first, because it locates the module.
START = "import json, sys; sys.path[:] = json.loads(sys.argv[2]); from conductor.plugins.worker import main; main()"
MOST_SECONDS = 86_400.0
MOST_IDLE = 4
PAUSE_SECONDS = 30.0  # after a process could not be started
NO_PROCESS = "no process for it can be started"
T = TypeVar("T")


class _Forker:
    """The process that forks workers. It has loaded everything but the plugins, so that a fork is fast."""

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
        """Fork a process, and return it with its connection. Raises OSError or EOFError."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [FORK], [theirs.fileno()])
            return int(self._reply()), ours

    def end(self, pid: int) -> None:
        """Kill a forked process, and its child processes."""
        self._control.sendall(END + b"%d" % pid)
        self._reply()

    def close(self) -> None:
        """End the forker, and all processes that it has forked."""
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
    """One worker process: its loaded plugins, and the data that it has from the last call."""

    def __init__(self, loads: LoadParameters) -> None:
        self.loads = loads
        self._digest: str | None = None
        self._states: Sequence[HostState] = ()
        self._pid, self._link = _fork()
        try:
            ends = time.monotonic() + START_SECONDS
            start = Start(tuple(sys.path), loads)
            self._link.settimeout(START_SECONDS)
            worker_protocol.send(self._link, pickle.dumps(start))
            if worker_protocol.receive(self._link, ends) != READY:
                raise EOFError
        except BaseException:
            self.end()
            raise

    def ask(self, apart: SharedWorkers, seconds: float, call: tuple[Any, ...]) -> CallResult:
        """Make a call. Raises TimeoutError, or EOFError or OSError where the process has ended."""
        hosts = next((one for one in call[1] if isinstance(one, HostTable)), None)
        states = tuple(hosts.states) if hosts is not None else self._states
        digest = self._digest if apart.choices is None else apart.digest
        question = WorkerCall(
            seconds=seconds,
            choices=None if self._digest == digest else apart.choices,
            states=_news(self._states, states),
            age_seconds=hosts.age_seconds if hosts is not None else 0.0,
            claimed_rows=frozenset(hosts.claimed_rows) if hosts is not None else frozenset(),
            body=worker_protocol.packed(call),
        )
        data = pickle.dumps(question, pickle.HIGHEST_PROTOCOL)
        self._digest, self._states = digest, states
        ends = time.monotonic() + seconds
        self._link.settimeout(seconds)
        worker_protocol.send(self._link, data)
        return _answer(worker_protocol.receive(self._link, ends), hosts)

    def is_alive(self) -> bool:
        """Whether the process waits for a call, as far as this side can see."""
        self._link.settimeout(0)
        try:
            self._link.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def let_go(self) -> None:
        """Close the connection after a fork, as the worker belongs to the parent."""
        self._link.close()

    def end(self) -> None:
        """Kill the worker; a call in progress gets no answer."""
        self._link.close()
        _end(self._pid)


def _news(before: Sequence[HostState], now: Sequence[HostState]) -> Sequence[HostState] | Mapping[int, HostState]:
    """Return the states that the worker lacks. States are immutable, so a changed host has another object."""
    if len(before) != len(now):
        return now
    changed = {row: now[row] for row, same in enumerate(map(operator.is_, before, now)) if not same}
    is_other = len(changed) * 2 > len(now) or any(
        (before[row].host, before[row].node) != (state.host, state.node) for row, state in changed.items()
    )
    return now if is_other else changed


def _answer(data: bytes, hosts: HostTable | None) -> CallResult:
    """Return the answer. An answer that cannot be read in this process becomes an error."""
    try:
        found: CallResult = AnswerUnpickler(data, lambda name: hosts).load()
    except Exception as error:
        return CallResult(error=error)
    return found


@dataclass(frozen=True)
class SharedWorkers:
    """Calls in any free worker with these loaded plugins, the operators' choices, and their digest.

    `choices` is None for kinds without choices.
    """

    loads: LoadParameters
    choices: Mapping[str, PluginKindSettings] | None = None
    digest: str = ""

    def prepare(self) -> float:
        """Start a process if none is free. Return the seconds that the plugin had to wait. Raises NotCalled."""
        began = time.monotonic()
        _put_back(_taken(self.loads))
        return time.monotonic() - began

    def call(self, seconds: float, method: Callable[..., T], *args: Any) -> T:
        """Make a call in another process; return or raise its result.

        Raises:
            PluginTimedOut: the call took longer than `seconds`; its process was killed.
            PluginProcessEnded: the call ended its process.
            NotCalled: there is no process for it.
        """
        process = _taken(self.loads)
        answer = _asked(process, self, seconds, (method, args))
        _put_back(process)
        return _value(answer)  # type: ignore[no-any-return]

    def end(self) -> None:
        """Do nothing, as free workers are shared."""


class DedicatedWorker:
    """Calls in a worker of one plugin, one after another. The plugin's state and connections stay there.

    If a call ends the worker, the next one gets a new worker. Raises as `SharedWorkers`.
    """

    def __init__(self, loads: LoadParameters) -> None:
        self._apart = SharedWorkers(loads)
        self._process: _Process | None = None
        self._lock = threading.Lock()
        _all_kept.add(self)

    def prepare(self) -> float:
        began = time.monotonic()
        with self._lock:
            self._ready()
        return time.monotonic() - began

    def call(self, seconds: float, method: Callable[..., T], *args: Any) -> T:
        with self._lock:
            process, self._process = self._ready(), None
            answer = _asked(process, self._apart, seconds, (method, args))
            self._process = process
        return _value(answer)  # type: ignore[no-any-return]

    def is_running(self) -> bool:
        """Whether the worker of earlier calls still runs."""
        with self._lock:
            return self._process is not None and self._process.is_alive()

    def end(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.end()

    def forget(self) -> None:
        """Drop the worker after a fork, as it belongs to the parent."""
        self._lock = threading.Lock()
        if self._process is not None:
            self._process.let_go()
            self._process = None

    def _ready(self) -> _Process:
        if self._process is not None and not self._process.is_alive():
            self._process.end()
            self._process = None
        self._process = self._process or _started(self._apart.loads)
        return self._process


def _asked(process: _Process, apart: SharedWorkers, seconds: float, call: tuple[Any, ...]) -> CallResult:
    """Return the process's answer. A process that does not answer is ended."""
    try:
        return process.ask(apart, min(seconds, MOST_SECONDS), call)
    except TimeoutError:
        process.end()
        log.error("plugin was stopped: name=%s seconds=%.1f", _name_in(call), seconds)
        raise PluginTimedOut from None
    except (EOFError, OSError):
        process.end()
        raise PluginProcessEnded from None
    except BaseException:
        process.end()
        raise


def _name_in(call: tuple[Any, ...]) -> str:
    """Return the name of the plugin of a call."""
    method, args = call
    for one in (method, *args):
        plugin = getattr(one, "__self__", one)
        if isinstance(plugin, worker_protocol.PLUGINS):
            return plugin.name
    return ""


def _value(answer: CallResult) -> Any:
    """Return or raise the result of the call, and log the plugin's lines."""
    for line in answer.lines:
        logging.getLogger(line["name"]).handle(logging.makeLogRecord(line))
    if isinstance(answer.error, worker_protocol.UserFacingError):
        raise answer.error.error() from answer.error
    if answer.error is not None:
        raise answer.error
    return answer.value


_lock = threading.Lock()
_forker_lock = threading.Lock()
_idle: list[_Process] = []
_forker: _Forker | None = None
_not_before = 0.0
_all_kept: WeakSet[DedicatedWorker] = WeakSet()


def _taken(loads: LoadParameters) -> _Process:
    """Return a process that has loaded these plugins. Raises NotCalled if there is none."""
    with _lock:
        useless = [one for one in _idle if one.loads is not loads or not one.is_alive()]
        _idle[:] = [one for one in _idle if one not in useless]
        process = _idle.pop() if _idle else None
    for one in useless:
        one.end()
    return process or _started(loads)


def _started(loads: LoadParameters) -> _Process:
    """Start a process that loads these plugins. Raises NotCalled where it fails.

    After a failure there is a pause, as each try may take as long as the plugins hang.
    """
    global _not_before
    if time.monotonic() < _not_before:
        raise NotCalled(NO_PROCESS)
    try:
        return _Process(loads)
    except (OSError, EOFError):
        log.exception("no process for plugins can be started")
        _not_before = time.monotonic() + PAUSE_SECONDS
        raise NotCalled(NO_PROCESS) from None


def describe(loads: LoadParameters, source: SourceKey, seconds: float) -> SourceDescription:
    """Describe the source in a process of its own, which is killed if it hangs."""
    try:
        pid, link = _fork()
    except (OSError, EOFError):
        log.exception("no process for plugins can be started")
        return SourceDescription(reason=NO_PROCESS)
    try:
        ends = time.monotonic() + seconds
        link.settimeout(seconds)
        worker_protocol.send(link, pickle.dumps(Start(tuple(sys.path), loads, source)))
        found: SourceDescription = AnswerUnpickler(worker_protocol.receive(link, ends), _no_plugin).load()
        return found
    except TimeoutError:
        return SourceDescription(reason=f"it was not loaded within {seconds:g} seconds: its process was stopped")
    except (OSError, EOFError):
        return SourceDescription(reason="it ended its process while it was loaded")
    except Exception as error:
        return SourceDescription(reason=f"what it brings cannot be read ({type(error).__name__})")
    finally:
        link.close()
        _end(pid)


def _no_plugin(name: Any) -> Any:
    raise pickle.UnpicklingError


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
        except (OSError, EOFError):  # it has ended: retry once with a new one
            _forker.close()
            _forker = None
            _forker = _Forker()
            return _forker.fork()


def _end(pid: int) -> None:
    """End a worker. Workers of a forker that has ended end by themselves."""
    with _forker_lock, suppress(OSError, EOFError):
        if _forker is not None:
            _forker.end(pid)


@atexit.register
def close() -> None:
    """End all processes for plugins. The next call starts new ones."""
    global _forker
    with _lock:
        _idle.clear()
    with _forker_lock:
        if _forker is not None:
            _forker.close()
            _forker = None


def _forget() -> None:
    """Drop the parent's processes after a fork."""
    global _lock, _forker_lock, _forker
    _lock, _forker_lock = threading.Lock(), threading.Lock()
    _idle.clear()
    for kept in list(_all_kept):
        kept.forget()
    if _forker is not None:
        _forker.process.returncode = 0  # avoids waiting for it here
        _forker = None


os.register_at_fork(after_in_child=_forget)
