"""Lists the files that a launch and a resize pass through, from the view to the driver and back, in call order.

    python -m tools.request_path

A profiler looks at the stack at each statement that is sent to a database and at each call of the driver, while a real
agent with the simulated hypervisor carries the request out. The files of all functions of the project on these stacks
are the way: what a reader opens who follows the calls down. A function that only calculates is called from the way and
returns to it; the files of all functions that are called are counted too, under "with helpers".
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
PACKAGES = ("portal", "conductor", "scheduler_plugins", "compute_drivers")
REQUESTS = "tests/integration/flows/paths_of_requests.py"
DRIVER = "compute_drivers/fake/driver.py"
ALL_THE_TIME = ("compute-clock", "compute-consoles", "compute-report", "compute-usage")  # names of an agent's threads


@dataclass(frozen=True)
class RequestPath:
    """Files of the project in call order: those on the way of a request, and all whose functions it called."""

    on_the_way: tuple[str, ...]
    with_helpers: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{number:3} {name}" for number, name in enumerate(self.on_the_way, start=1)]
        return "\n".join([*lines, f"{len(self.on_the_way)} files, {len(self.with_helpers)} with helpers"])


class RequestProfiler:
    """A profiler that notes files. It hears the thread that installs it, and all that begin afterwards.

    What an agent does by itself at all times does not count.
    """

    def __init__(self) -> None:
        self._called: dict[str, None] = {}
        self._on_the_way: dict[str, None] = {}

    def __call__(self, frame: Any, event: str, function: Any) -> None:
        if threading.current_thread().name.startswith(ALL_THE_TIME):
            return
        if event == "call":
            self._called[frame.f_code.co_filename] = None
        is_driver = event == "call" and frame.f_code.co_filename.endswith(DRIVER)
        if is_driver or (event == "c_call" and _is_statement(function)):
            for name in reversed(list(_files_of_stack(frame))):
                self._on_the_way[name] = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def clear(self) -> None:
        self._called.clear()
        self._on_the_way.clear()

    def path(self) -> RequestPath:
        """Return the files since the last `clear`."""
        return RequestPath(_of_project(self._on_the_way), _of_project(self._called))


def in_all(paths: Sequence[RequestPath]) -> RequestPath:
    """Return the files that are in each of several paths, in the order of the first: some work is done now and then."""
    return RequestPath(
        tuple(name for name in paths[0].on_the_way if all(name in path.on_the_way for path in paths)),
        tuple(name for name in paths[0].with_helpers if all(name in path.with_helpers for path in paths)),
    )


def _files_of_stack(frame: Any) -> Iterator[str]:
    while frame is not None:
        yield frame.f_code.co_filename
        frame = frame.f_back


def _is_statement(function: Any) -> bool:
    return function.__name__ in {"execute", "executemany"} and isinstance(
        getattr(function, "__self__", None), sqlite3.Connection | sqlite3.Cursor
    )


def _of_project(files: Iterable[str]) -> tuple[str, ...]:
    names = (Path(name) for name in list(files))  # other threads add to it
    below = (str(name.relative_to(PROJECT)) for name in names if name.is_relative_to(PROJECT))
    return tuple(name for name in below if name.startswith(PACKAGES))


def main() -> int:
    """Make the requests in a process of its own: threads that others leave would count too."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", REQUESTS]
    return subprocess.run(command, cwd=PROJECT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
