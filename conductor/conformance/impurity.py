"""Detects impure code: access to files, sockets, processes, threads, clocks and randomness."""

from __future__ import annotations

import gc
import logging
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# Audit events of the interpreter: prefix of the event's name → description.
EVENTS = {
    "open": "opens a file",
    "os.": "asks the operating system",
    "socket.": "uses the network",
    "subprocess.": "starts a process",
    "sqlite3.": "opens a database",
    "shutil.": "changes files",
    "glob.": "looks at files",
}
# Built-in functions by module, and the description of a call.
CALLS = {
    "time": "looks at the clock",
    "_thread": "starts a thread",
    "_random": "draws by chance",
}
QUIET_CALLS = frozenset({"get_ident", "get_native_id", "allocate_lock", "RLock", "lock", "strptime", "mktime"})
NAMES = {
    "datetime.now": "looks at the clock",
    "datetime.utcnow": "looks at the clock",
    "date.today": "looks at the clock",
    "urandom": "draws by chance",
    "print": "prints",
    "input": "waits for input",
}
_here = threading.local()
_is_installed = False


@contextmanager
def watched() -> Iterator[set[str]]:
    """Collect descriptions of this thread's impure calls in the block, except for imports and log lines."""
    _install()
    seen: set[str] = set()
    before, _here.seen = sys.getprofile(), seen
    collects = gc.isenabled()
    gc.disable()  # other code's finalizers would run at collections: the plugin does not cause those
    sys.setprofile(_called)
    try:
        yield seen
    finally:
        sys.setprofile(before)
        _here.seen = None
        if collects:
            gc.enable()


def _install() -> None:
    """Install the audit hook once, as hooks cannot be removed; it ignores threads that are not watched."""
    global _is_installed
    if not _is_installed:
        _is_installed = True
        sys.addaudithook(_audited)


def _audited(event: str, args: tuple[Any, ...]) -> None:
    seen = getattr(_here, "seen", None)
    if seen is None:
        return
    reported = next((text for start, text in EVENTS.items() if event.startswith(start)), "")
    if reported and not _is_allowed(sys._getframe(1)):
        seen.add(f"{reported} ({event})")


def _called(frame: FrameType, event: str, arg: Any) -> None:
    if event != "c_call":
        return
    seen = getattr(_here, "seen", None)
    reported = _judged(arg)
    if seen is not None and reported and not _is_allowed(frame):
        seen.add(f"{reported} ({getattr(arg, '__qualname__', arg)})")


def _judged(function: Any) -> str:
    """Return the description of a call of the built-in function; empty where it is harmless."""
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__qualname__", "")
    if name in NAMES:
        return NAMES[name]
    if isinstance(owner, random.Random):
        return CALLS["_random"]
    if getattr(function, "__name__", "") in QUIET_CALLS:
        return ""
    return CALLS.get(getattr(owner, "__name__", ""), "")


def _is_allowed(frame: FrameType | None) -> bool:
    """Whether the call comes from an import, or from a log line: plugins have a logger, which reads the clock."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(("<frozen importlib", logging.__file__)):
            return True
        frame = frame.f_back
    return False
