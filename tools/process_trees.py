"""Ends a process with all that it has started, in whatever session that runs.

sys.exit(process_trees.guard(run))   # nothing that `run` starts outlives it
process_trees.end({pool.pid})        # a pytest, its workers, and their services
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

SET_CHILD_SUBREAPER = 36  # an option of prctl(2)


def guard(work: Callable[[], int]) -> int:
    """Run `work` in a child of this process and return its result, once nothing is left of what it has started.

    Until then this process is the parent of each process below it whose own parent has ended, and waits for its end.
    """
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if child == 0:
        sys.exit(work())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: send(child, number))
    ended = status = 0
    while ended != child:
        ended, status = os.wait()
    end(below(os.getpid()))
    return os.waitstatus_to_exitcode(status)


def end(pids: Iterable[int]) -> None:
    """Kill these processes and all below them.

    Each is stopped before any is killed: a stopped process starts no other, and none loses its parent meanwhile.
    """
    stopped: set[int] = set()
    running = set(pids)
    while running:
        for pid in running:
            send(pid, signal.SIGSTOP)
        stopped |= running
        running = below(*stopped) - stopped
    for pid in stopped:
        send(pid, signal.SIGKILL)


def below(*pids: int) -> set[int]:
    """Return the processes that these have started, and those that they have started in turn.

    All of a session are below its leader, which may have ended.
    """
    children = _children()
    found: set[int] = set()
    rest = list(pids)
    while rest:
        new = children[rest.pop()] - found
        found |= new
        rest += new
    return found


def send(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _children() -> dict[int, set[int]]:
    """Return the children of each process, and the members of the session that it leads, unless they have ended."""
    children: dict[int, set[int]] = defaultdict(set)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, parent, _, session = path.read_text(errors="replace").rpartition(")")[2].split()[:4]
            pid = int(path.parent.name)
            if state not in "ZX":
                children[int(parent)].add(pid)
                if int(session) != pid:
                    children[int(session)].add(pid)
    return children
