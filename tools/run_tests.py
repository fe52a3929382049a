"""Runs the test suite in stages: `python -m tools.run_tests all`.

`quick` runs the first two stages, `part PATH …` these paths, `changed BASE` what the files changed since BASE can
break.

1. `architecture`: style, types, import contracts and the other checks of the code itself. The run stops if one fails.
2. `quick`: all unit tests, and what starts no process.
3. `processes`, `browser` and `drivers`: clouds of real processes and other programs, Chromium, guests. These run at the
   same time. After `drivers` comes `postgresql`: what depends on the kind of database, again on PostgreSQL.
4. A second look: each failed test once more, alone. If it fails again, the run fails with both outputs. If it passes,
   the test is listed as unstable; the run fails when more than three are.

The run fails at once when a process that runs tests dies, and when all of it takes longer than TEST_LIMIT_MINUTES (80);
then the stacks of all processes that run tests are printed first. There is no other repetition. At its end, whatever
its verdict, nothing that tests have started is left running.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from tools import changed_tests, process_trees, pytest_recorder
from tools.pytest_recorder import Record

PROJECT_DIR = Path(__file__).resolve().parent.parent
PROCESSORS = len(os.sched_getaffinity(0))
LIMIT_SECONDS = 60.0 * float(os.environ.get("TEST_LIMIT_MINUTES", "80"))
MOST_UNSTABLE = 3
MOST_SECOND_LOOKS = 20
SLOWEST = 30
DUMP_SECONDS = 2.0  # for a process to print its stacks, before the next one prints its own between the same lines
EXIT_PASSED, EXIT_NO_TESTS = 0, 5

# libvirt opens the hypervisor inside a process some twenty times and no more: one file needs most of them for itself.
APART = ("tests/compute_drivers/test_libvirt_faults.py", "tests/compute_drivers/test_tiny_linux.py")
# A line of a test module that starts processes. Unit tests are quick all the same.
STARTS_PROCESSES = re.compile(
    r"^import subprocess|^from tests\.(acceptance|services)\b|(rabbitmq|redis|\})_service\b", re.MULTILINE
)
# What depends on how a database locks, commits and sorts.
ON_POSTGRESQL = (
    "tests/integration/placement",
    "tests/integration/db/test_ledgers.py",
    "tests/integration/db/test_races.py",
    "tests/integration/db/test_shared_transactions.py",
    "tests/integration/network/test_addresses.py",
    "tests/integration/network/test_ports.py",
    "tests/integration/services/test_host_reports.py",
    "tests/integration/services/test_instance_delete.py",
    "tests/integration/services/test_instance_indexes.py",
    "tests/integration/services/test_instance_lists.py",
    "tests/integration/services/test_launch.py",
    "tests/integration/services/test_reports_elsewhere.py",
    "tests/integration/workflows/test_engine.py",
    "tests/integration/workflows/test_histories.py",
    "tests/integration/workflows/test_run_sets.py",
    "tests/integration/workflows/test_statements.py",
)


@dataclass(frozen=True)
class Pool:
    """Tests that one pytest runs.

    Attributes:
        workers: Its processes. None runs the tests in pytest's own process.
    """

    name: str
    paths: tuple[str, ...]
    workers: int | None = PROCESSORS
    ignored: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, record: Path) -> list[str]:
        words = [sys.executable, "-m", "pytest", "-q", "-p", "tools.pytest_recorder", "--record", str(record)]
        words += ["-p", "no:cacheprovider", "--no-header", "--color=no"]
        if self.workers is not None:
            words += ["-n", str(self.workers), "--dist", "loadfile", "--no-loadscope-reorder"]
            words += ["--max-worker-restart", "0"]
        return [*words, *(f"--ignore={path}" for path in self.ignored), *self.paths]


@dataclass(frozen=True)
class Stage:
    """Tracks of pools: tracks run at the same time, the pools of a track one after the other."""

    tracks: tuple[tuple[Pool, ...], ...]
    must_pass: bool = False

    @property
    def pools(self) -> tuple[Pool, ...]:
        return tuple(chain.from_iterable(self.tracks))


def _folders(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/{name}" for name in names)


def _test_files() -> list[Path]:
    return [path.relative_to(PROJECT_DIR) for path in PROJECT_DIR.glob("tests/*/**/test_*.py")]


def _that_start_processes(folders: Iterable[str]) -> tuple[str, ...]:
    """Return the test modules in these folders that start processes."""
    modules = chain.from_iterable(sorted((PROJECT_DIR / folder).rglob("test_*.py")) for folder in folders)
    found = (path for path in modules if STARTS_PROCESSES.search(path.read_text(encoding="utf-8")))
    return tuple(str(path.relative_to(PROJECT_DIR)) for path in found)


STARTED = _that_start_processes(_folders("api", "integration", "rpc"))
# These tests wait for what they have started: more of them run at the same time than there are processors.
SLOW = Stage(
    (
        (Pool("processes", (*_folders("chaos", "acceptance"), *STARTED), workers=PROCESSORS + 1),),
        (Pool("browser", _folders("browser")),),
        (
            Pool("drivers", _folders("compute_drivers"), ignored=APART),
            Pool("postgresql", APART + ON_POSTGRESQL, environment={"TEST_DATABASE": "postgresql"}),
        ),
    )
)


def _architecture() -> tuple[str, ...]:
    """Return the files of the first stage, the longest first: types take a processor for as long as all others take."""
    first = [f"tests/architecture/test_{name}.py" for name in ("style", "imports")]
    others = sorted(str(path) for path in _test_files() if path.parts[1] == "architecture")
    return (*first, *(path for path in others if path not in first))


ARCHITECTURE = Stage(((Pool("architecture", _architecture()),),), must_pass=True)


def stages_of_all() -> tuple[Stage, ...]:
    """Return the stages of the whole suite; each folder of `tests/` is in one of them."""
    elsewhere = {"tests/architecture", *(path for pool in SLOW.pools for path in pool.paths)}
    folders = sorted({f"tests/{path.parts[1]}" for path in _test_files()} - elsewhere)
    return (
        ARCHITECTURE,
        Stage(((Pool("quick", tuple(folders), workers=PROCESSORS + 1, ignored=STARTED),),)),
        SLOW,
    )


class Failed(Exception):
    """The run is red; the message says why."""


class Run:
    """One run of the suite, or of a part of it.

    Args:
        folder: For the records of its pools.
        root: Where pytest is started; paths of pools are below it.

    Attributes:
        records: What happened in each pool.
        failed: Pool and node id of each failed test, or of a module that cannot be imported.
    """

    def __init__(self, folder: Path, root: Path = PROJECT_DIR) -> None:
        self._folder = folder
        self._root = root
        self._began_at = time.monotonic()
        self._running: dict[str, subprocess.Popen[str]] = {}  # by pool
        self._fatal = ""  # why the whole run ends now
        self._printing = threading.Lock()
        self.records: dict[str, Record] = {}
        self.failed: list[tuple[Pool, str]] = []

    def run(self, stages: Sequence[Stage]) -> None:
        """Run all stages and the second look. Raises Failed."""
        for stage in stages:
            if self._fatal:
                raise Failed(self._fatal)
            began_at = time.monotonic()
            with ThreadPoolExecutor(len(stage.tracks)) as threads:
                list(threads.map(self._run_track, stage.tracks))
            if self._fatal:
                raise Failed(self._fatal)
            failed = [test for pool, test in self.failed if pool in stage.pools]
            names = " + ".join(pool.name for pool in stage.pools)
            self._say(f"== {names}: {time.monotonic() - began_at:.0f} s, {len(failed)} failed")
            if failed and stage.must_pass:
                raise Failed(f"{names} must pass before anything else is run: {_listed(failed)}")
        self._look_again()

    def _run_track(self, track: Sequence[Pool]) -> None:
        for pool in track:
            if not self._fatal:
                self._run_pool(pool)

    def _run_pool(self, pool: Pool) -> None:
        record = self._execute(pool)
        self.records[pool.name] = record
        self.failed += [(pool, test) for test in record.failures]
        for name, tests in record.crashes.items():
            self.end_now(f"process {name} of {pool.name} died; it had begun these tests: {_listed(tests)}")

    def _execute(self, pool: Pool) -> Record:
        """Run a pool to its end and return its record."""
        path = self._record_of(pool.name)
        child = subprocess.Popen(
            pool.command(path),
            cwd=self._root,
            env={**os.environ, **pool.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._running[pool.name] = child
        assert child.stdout is not None
        for line in child.stdout:
            self._say(f"{pool.name} | {line.rstrip()}")
        code = child.wait()
        del self._running[pool.name]
        record = pytest_recorder.read(path)
        if code not in (EXIT_PASSED, EXIT_NO_TESTS) and not record.failures and not record.crashes:
            self.end_now(f"pytest of {pool.name} ended with {code} without a failed test")
        return record

    def _record_of(self, pool_name: str) -> Path:
        return self._folder / f"{pool_name}.jsonl"

    def expire(self) -> None:
        """End the run, red, after all its processes have printed their stacks."""
        self._say("== not through in time; the stacks of all processes that run tests:")
        for name in tuple(self._running):
            for pid in pytest_recorder.read(self._record_of(name)).pids:
                process_trees.send(pid, signal.SIGUSR1)
                time.sleep(DUMP_SECONDS)
        self.end_now(f"not through after {(time.monotonic() - self._began_at) / 60:.0f} minutes")

    def end_now(self, why: str) -> None:
        """End all pools with the services of their tests; the run is red for this reason."""
        self._fatal = self._fatal or why
        for child in tuple(self._running.values()):
            process_trees.end({child.pid})

    def _look_again(self) -> None:
        """Run each failed test alone. Raises Failed when one fails again or too many are unstable."""
        if len(self.failed) > MOST_SECOND_LOOKS:
            raise Failed("too many to look at again: " + _listed(test for _, test in self.failed))
        unstable: list[str] = []
        again: list[str] = []
        for number, (pool, test) in enumerate(self.failed, start=1):
            self._say(f"== second look at {test}")
            alone = Pool(f"again-{number}", (test,), workers=None, environment=pool.environment)
            record = self._execute(alone)
            if self._fatal:
                raise Failed(self._fatal)
            passes = not record.failures and not record.crashes and record.passed > 0
            (unstable if passes else again).append(test)
        for pool, test in self.failed:
            if test in unstable:
                self._say(f"== UNSTABLE: {test} passed alone; it failed among the others:")
                self._say(self.records[pool.name].failures[test])
        if again:
            raise Failed("failed twice: " + _listed(again))
        if len(unstable) > MOST_UNSTABLE:
            raise Failed(f"more than {MOST_UNSTABLE} unstable tests: " + _listed(unstable))
        if unstable:
            self._say("== passed, with unstable tests: " + _listed(unstable))

    def report(self) -> None:
        """Print the time of each folder and the slowest tests."""
        folders: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        tests: list[tuple[float, float, str]] = []
        for pool, record in self.records.items():
            for test, seconds in record.seconds.items():
                processors = record.processor_seconds[test]
                folder = folders[pool if pool == "postgresql" else "/".join(Path(test).parts[:2])]
                folder[:] = folder[0] + seconds, folder[1] + processors
                tests.append((seconds, processors, test + (" on PostgreSQL" if pool == "postgresql" else "")))
        self._say(f"== {sum(record.passed for record in self.records.values())} passed")
        self._say("== by folder: seconds of tests, and of processors")
        for name, (seconds, processors) in sorted(folders.items(), key=lambda item: -item[1][0]):
            self._say(f"{seconds:8.0f} {processors:8.0f}  {name}")
        self._say(f"== the {SLOWEST} slowest tests")
        for seconds, processors, name in sorted(tests, reverse=True)[:SLOWEST]:
            self._say(f"{seconds:8.1f} {processors:8.1f}  {name}")
        self._say(f"== {(time.monotonic() - self._began_at) / 60:.1f} minutes in all")

    def _say(self, text: str) -> None:
        with self._printing:
            print(text, flush=True)


def _listed(tests: Iterable[str]) -> str:
    return "".join(f"\n  {test}" for test in tests)


def stages_of(command: str, words: Sequence[str]) -> tuple[Stage, ...]:
    """Return what a command of this module runs. Raises Failed for an unknown one."""
    match command:
        case "all":
            return stages_of_all()
        case "quick":
            return stages_of_all()[:2]
        case "changed":
            changed = changed_tests.broken_by(PROJECT_DIR, changed_tests.changed_paths(PROJECT_DIR, words[0]))
            return (ARCHITECTURE, Stage(((Pool("changed", tuple(changed)),),))) if changed else (ARCHITECTURE,)
        case "part":
            environment = {key: value for key, value in os.environ.items() if key == "TEST_DATABASE"}
            return (Stage(((Pool("part", tuple(words), environment=environment),),)),)
    raise Failed(f"no command is named {command}: say all, quick, changed or part")


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments say; 0 when the run is green. Nothing that it has started outlives it."""
    return process_trees.guard(partial(_run, arguments))


def _run(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="nv-records-") as folder:
        run = Run(Path(folder))
        limit = threading.Timer(LIMIT_SECONDS, run.expire)
        limit.daemon = True
        limit.start()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: run.end_now(f"ended by {signal.Signals(number).name}"))
        try:
            run.run(stages_of(arguments[0], arguments[1:]))
        except Failed as failure:
            run.report()
            print(f"== FAILED: {failure}", flush=True)
            return 1
        run.report()
        print("== PASSED", flush=True)
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
