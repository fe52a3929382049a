"""Tells whether code reaches outside of what it was given: files, sockets, processes, threads, clocks and chance."""

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

# What the interpreter reports by itself: the beginning of an event's name → what to call it.
EVENTS = {
    "open": "opens a file",
    "os.": "asks the operating system",
    "socket.": "uses the network",
    "subprocess.": "starts a process",
    "sqlite3.": "opens a database",
    "shutil.": "changes files",
    "glob.": "looks at files",
}
# Built-in functions by module, and what to call a call of one.
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
    "input": "asks somebody",
}
_here = threading.local()
_is_installed = False


@contextmanager
def watched() -> Iterator[set[str]]:
    """What this thread does meanwhile that is not pure, in words, but for imports and lines for the log."""
    _install()
    seen: set[str] = set()
    before, _here.seen = sys.getprofile(), seen
    collects = gc.isenabled()
    gc.disable()  # others may have asked to be called when garbage is collected: that is none of the plugin's doing
    sys.setprofile(_called)
    try:
        yield seen
    finally:
        sys.setprofile(before)
        _here.seen = None
        if collects:
            gc.enable()


def _install() -> None:
    """Hooks of this kind stay for good: one for all, which looks away where nobody watches."""
    global _is_installed
    if not _is_installed:
        _is_installed = True
        sys.addaudithook(_audited)


def _audited(event: str, args: tuple[Any, ...]) -> None:
    seen = getattr(_here, "seen", None)
    if seen is None:
        return
    said = next((text for start, text in EVENTS.items() if event.startswith(start)), "")
    if said and not _is_allowed(sys._getframe(1)):
        seen.add(f"{said} ({event})")


def _called(frame: FrameType, event: str, arg: Any) -> None:
    if event != "c_call":
        return
    seen = getattr(_here, "seen", None)
    said = _judged(arg)
    if seen is not None and said and not _is_allowed(frame):
        seen.add(f"{said} ({getattr(arg, '__qualname__', arg)})")


def _judged(function: Any) -> str:
    """What to call a call of the built-in function; empty where it is nobody's business."""
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
    """Whether an import does it, or a line for the log: plugins have a logger, and its lines tell the time."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(("<frozen importlib", logging.__file__)):
            return True
        frame = frame.f_back
    return False
