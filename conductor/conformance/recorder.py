"""Runs a suite with pytest and keeps what came of each law; one that takes too long is broken."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from conductor.conformance.base import ASKED, NOT_ASKED
from conductor.conformance.report import BROKEN, KEPT, NOT_OFFERED, Law
from conductor.conformance.time_limits import at_most
from conductor.core.compute_driver import ComputeDriver, GuestSpec

LONGEST_WHY = 300
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
SUBJECT = pytest.StashKey["Subject"]()


@dataclass(frozen=True)
class Subject:
    """Drivers to ask, not yet started, and the guest that they can run."""

    driver: ComputeDriver
    other: ComputeDriver
    guest: GuestSpec


@dataclass
class Recorder:
    """A plugin of pytest. `law_seconds` may one law take."""

    subject: Subject | None
    law_seconds: float
    laws: dict[str, Law] = field(default_factory=dict)

    def pytest_configure(self, config: pytest.Config) -> None:
        if self.subject is not None:
            config.stash[SUBJECT] = self.subject

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        ASKED.clear()
        NOT_ASKED.clear()
        with at_most(self.law_seconds, TimeoutError(f"It took longer than {self.law_seconds:g} seconds.")):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("::")[2]
        before = self.laws.get(name)
        seconds = report.duration + (before.seconds if before else 0.0)
        outcome = NOT_OFFERED if NOT_ASKED else KEPT
        why = before.why if before else ""
        if report.failed or (before is not None and before.outcome == BROKEN):
            outcome, why = BROKEN, why or _why(report)
        self.laws[name] = Law(name, outcome, tuple(sorted(ASKED | NOT_ASKED)), round(seconds, 3), why)


def run(suite: Path, recorder: Recorder) -> list[Law]:
    """What came of the laws in the file `suite`."""
    pytest.register_assert_rewrite("conductor.conformance")
    words = [*QUIET, "-c", os.devnull, "--rootdir", str(suite.parent), str(suite)]
    pytest.main(words, plugins=[recorder])
    return list(recorder.laws.values())


def _why(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    said = " ".join(text.split())[:LONGEST_WHY]
    return f"{said} (while it was being cleared away)" if report.when == "teardown" else said
