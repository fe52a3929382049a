"""Runs a suite with pytest in a separate process and records each test; ending or blocking it fails the test."""

from __future__ import annotations

import linecache
import os
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from conductor.conformance.apart import CheckProcessEnded, Report, results_apart
from conductor.conformance.base import ASKED, NOT_ASKED
from conductor.conformance.report import BROKEN, KEPT, NOT_OFFERED, Law
from conductor.conformance.time_limits import at_most
from conductor.core.compute_driver import ComputeDriver, GuestSpec

LONGEST_WHY = 300
GRACE_SECONDS = 10.0  # for the cleanup of an interrupted test
MOST_LOST = 5  # tests that hung or ended the process; more would add no information, and may take hours
QUIET = (
    "-q",
    "--no-header",
    "--no-summary",
    "--capture=fd",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:django",
    "-p",
    "no:asyncio",
)
SUBJECT = pytest.StashKey["DriversUnderTest"]()


@dataclass(frozen=True)
class DriversUnderTest:
    """Drivers to test, not yet started, and a guest that they can run."""

    driver: ComputeDriver
    other: ComputeDriver
    guest: GuestSpec


@dataclass
class Recorder:
    """A pytest plugin. `check_seconds` is the time limit of one test."""

    subject: DriversUnderTest
    check_seconds: float
    judged: Mapping[str, Law]
    send: Report
    laws: dict[str, Law] = field(default_factory=dict)

    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[SUBJECT] = self.subject

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.name not in self.judged]
        self.send(["laws", [item.name for item in items]])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.send(["asked", _name(nodeid)])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        ASKED.clear()
        NOT_ASKED.clear()
        item.session.shouldstop = sum(law.seconds >= self.check_seconds for law in self.laws.values()) >= MOST_LOST
        with at_most(self.check_seconds, TimeoutError(f"It took longer than {self.check_seconds:g} seconds.")):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = _name(report.nodeid)
        before = self.laws.get(name)
        seconds = report.duration + (before.seconds if before else 0.0)
        outcome = NOT_OFFERED if NOT_ASKED else KEPT
        why = before.why if before else ""
        if report.failed or (before is not None and before.outcome == BROKEN):
            outcome, why = BROKEN, why or _why(report)
        self.laws[name] = Law(name, outcome, tuple(sorted(ASKED | NOT_ASKED)), round(seconds, 3), why)
        self.send(["law", asdict(self.laws[name])])


def run(suite: Path, subject: DriversUnderTest, check_seconds: float) -> list[Law]:
    """Run the file `suite`. Return the results. After a driver ends its process, a new one continues."""
    pytest.register_assert_rewrite("conductor.conformance")
    words = [*QUIET, "-c", os.devnull, "--rootdir", str(suite.parent), str(suite)]
    laws: dict[str, Law] = {}

    def work(send: Report) -> None:
        pytest.main(words, plugins=[Recorder(subject, check_seconds, laws, send)])

    left: list[str] = []
    for _ in range(MOST_LOST):
        requested = ""
        try:
            for kind, sentence in results_apart(work, check_seconds + GRACE_SECONDS):
                if kind == "laws":
                    left = sentence
                elif kind == "asked":
                    requested = sentence
                else:
                    laws[requested] = Law(**sentence | {"capabilities": tuple(sentence["capabilities"])})
            break
        except CheckProcessEnded as error:
            laws[requested] = Law(requested, BROKEN, why=str(error))
    not_asked = f"not asked: {MOST_LOST} laws before hung or ended their process"
    return [*laws.values(), *(Law(name, BROKEN, why=not_asked) for name in left if name not in laws)]


def _name(nodeid: str) -> str:
    return nodeid.rpartition("::")[2]


def _why(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    if crash is not None and text == "AssertionError":  # its authors read what was expected
        text = linecache.getline(crash.path, crash.lineno)
    sentence = " ".join(text.split())[:LONGEST_WHY]
    return f"{sentence} (while it was being cleared away)" if report.when == "teardown" else sentence
