"""Calls of plugins that may never come back: made in a thread beside, which is left behind long after its time."""

from __future__ import annotations

import contextvars
import ctypes
import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from conductor.core.scheduling.watching import LeftBehind, Stop

log = logging.getLogger(__name__)

MOST_LEFT_BEHIND = 32
T = TypeVar("T")


class _Call:
    """A call, and what it returned or raised."""

    def __init__(self, method: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._work, self._method, self._args = contextvars.copy_context(), method, args
        self.is_over = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._result = self._work.run(self._method, *self._args)
        except BaseException as error:
            self._error = error
        self.is_over.set()

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


class _Attendant:
    """A thread that makes one call after another. It keeps no process from ending."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._serve, daemon=True, name="plugin")
        self.thread.start()

    def _serve(self) -> None:
        with suppress(Stop):  # it came back just then
            while (call := self.calls.get()) is not None:
                call.run()

    def stop(self) -> None:
        """Raise in the thread as soon as it runs Python again; what sleeps in a library sleeps on."""
        _throw_into(self.thread.ident or 0)
        self.calls.put(None)  # not before: the number of a thread that has ended may be another's
        # The interpreter looks at every step whether somebody is to raise, until somebody has: who sleeps for long
        # would slow all threads down, and hang those that a profiler watches. So somebody raises at once.
        with suppress(Stop):
            _throw_into(threading.get_ident())
            while True:
                pass


def _throw_into(thread: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Stop))


_idle: list[_Attendant] = []
_left_behind: list[_Attendant] = []


def within(seconds: float, method: Callable[..., T], *args: Any) -> T:
    """What the call returns or raises; raises LeftBehind where it does neither in time.

    A plugin that hangs costs its process a thread, until it is in quarantine; past MOST_LEFT_BEHIND nobody is asked.
    """
    if num_left_behind() >= MOST_LEFT_BEHIND:
        raise LeftBehind
    try:
        attendant = _idle.pop()
    except IndexError:
        attendant = _Attendant()
    call = _Call(method, args)
    attendant.calls.put(call)
    if not call.is_over.wait(min(seconds, threading.TIMEOUT_MAX)):
        _left_behind.append(attendant)
        attendant.stop()
        log.error("plugin hangs: call=%s seconds=%.1f", getattr(method, "__qualname__", method), seconds)
        raise LeftBehind
    _idle.append(attendant)
    return call.result()  # type: ignore[no-any-return]


def num_left_behind() -> int:
    """How many threads of this process are still with plugins that nobody waits for."""
    _left_behind[:] = [one for one in _left_behind if one.thread.is_alive()]
    return len(_left_behind)
