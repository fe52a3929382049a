"""Records what a run of pytest did, as lines of JSON: `pytest -p tools.pytest_recorder --record FILE`.

    {"kind": "process", "pid": 4711}
    {"kind": "phase", "test": "tests/unit/test_x.py::test_a", "phase": "call", "outcome": "passed", "seconds": 0.02,
     "processor_seconds": 0.01}
    {"kind": "crash", "name": "gw0", "tests": ["tests/unit/test_x.py::test_a"]}

Processor time is that of the process that runs the test and of its children that have ended in this phase. A line is
written as soon as it is known, so the record of a run that hangs or dies is complete up to then. The process dumps
the stacks of all its threads when it receives SIGUSR1.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PROCESSOR_SECONDS = pytest.StashKey[float]()  # of this process and its ended children, when the phase began


class Recorder:
    """The pytest plugin of the process that distributes the tests, or runs them all."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._tests_of: dict[str, list[str]] = defaultdict(list)

    def _write(self, **line: object) -> None:
        self._file.write(json.dumps(line) + "\n")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        if error:
            self._write(kind="crash", name=node.gateway.id, tests=self._tests_of[node.gateway.id])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        worker = getattr(report, "worker_id", "main")
        if report.when == "setup":
            self._tests_of[worker].append(report.nodeid)
        failure = {"output": _output(report), "worker": worker} if report.failed else {}
        self._write(
            kind="phase",
            test=report.nodeid,
            phase=report.when,
            outcome=report.outcome,
            seconds=round(report.duration, 3),
            processor_seconds=dict(report.user_properties).get(report.when, 0.0),
            **failure,
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(kind="collection", path=report.nodeid, output=report.longreprtext)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Begin to count: what is spent between tests, on collection above all, is of none of them."""
    item.config.stash[PROCESSOR_SECONDS] = _processor_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Add the processor time of a phase to its report, which a worker sends to the process that records."""
    now = _processor_seconds()
    item.user_properties.append((call.when, round(now - item.config.stash[PROCESSOR_SECONDS], 3)))
    item.config.stash[PROCESSOR_SECONDS] = now
    return (yield)


def _processor_seconds() -> float:
    return sum(os.times()[:4])


def _output(report: pytest.TestReport) -> str:
    sections = [f"--- {title}\n{text}" for title, text in report.sections]
    return "\n".join([report.longreprtext, *sections])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, help="append what happens to this file, as lines of JSON")


def pytest_configure(config: pytest.Config) -> None:
    # While a test runs, descriptor 2 is a file that keeps its output; now it is still the terminal.
    faulthandler.register(signal.SIGUSR1, file=os.dup(sys.__stderr__.fileno()) if sys.__stderr__ else 2)
    path = config.getoption("--record")
    if path is None:
        return
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"kind": "process", "pid": os.getpid()}) + "\n")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(path), "recorder")


@dataclass
class Record:
    """What the lines of a file say."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # per test, with its fixtures
    processor_seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # the same
    failures: dict[str, str] = field(default_factory=dict)  # what failed, a test or a module, and its output
    crashes: dict[str, list[str]] = field(default_factory=dict)  # the tests that a dead worker had begun
    pids: list[int] = field(default_factory=list)
    passed: int = 0


def read(path: Path) -> Record:
    """Return what the record in `path` says; empty when the run wrote none."""
    record = Record()
    for line in _lines(path):
        match line["kind"]:
            case "process":
                record.pids.append(line["pid"])
            case "crash":
                record.crashes[line["name"]] = line["tests"]
            case "collection":
                record.failures[line["path"]] = line["output"]
            case "phase":
                _add_phase(record, line)
    return record


def _add_phase(record: Record, line: dict[str, Any]) -> None:
    record.seconds[line["test"]] += line["seconds"]
    record.processor_seconds[line["test"]] += line["processor_seconds"]
    if line["outcome"] == "failed":
        previous = record.failures.get(line["test"])
        record.failures[line["test"]] = "\n".join(filter(None, [previous, line["output"]]))
    elif line["phase"] == "call" and line["outcome"] == "passed":
        record.passed += 1


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    if path.exists():
        for text in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(text)
