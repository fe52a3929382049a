"""Time until the work of a conductor continues after it dies, freezes, or loses its database.

    python benchmarks/takeover.py [kills]

Real conductors on real brokers run a flow of one step.

R1: kill -9 of a conductor until another begins its step again, on PostgreSQL: noticed by its locked file on one
machine, or by its session. The lease is ten seconds, so none of these wait for its end.

R2: SIGSTOP of a conductor until another begins its step again, as a share of the lease.

R3: kill -9 of PostgreSQL in the middle of the steps of several runs and its restart, until all runs are done, as a
multiple of the time that the server itself needs to answer again.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results import Figure, record
from tests.acceptance.crew import ConductorRecord, Crew

KILLS = 34  # of each kind
FREEZES = 6
OUTAGES = 3
RUNS = 8
AT_WORK = 3
FOREVER = 600.0
LEASE_SECONDS = 2.0
QUIET = {"NOVELLA_LOG_LEVEL": "ERROR"}
SHORT = {**QUIET, "NOVELLA_LEASE_SECONDS": str(LEASE_SECONDS), "NOVELLA_SWEEP_SECONDS": "0.1"}

BAR_MS = 250
FIGURES = {
    "R1 by session": "`kill -9` of a conductor to the resumed step, p99, noticed by its session",
    "R1 by file": "the same, noticed by the locked file",
}


def main(kills: int) -> None:
    every: list[float] = []
    with tempfile.TemporaryDirectory(prefix="novella-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server runs under an account of its own
        with Crew(folder / "apart", database="postgresql", **QUIET) as crew:
            every += _killed("R1 by session", crew, kills, is_apart=True)
        with Crew(folder / "postgresql", database="postgresql", **QUIET) as crew:
            every += _killed("R1 by file", crew, kills, is_apart=False)
        _print("R1 all, milliseconds", every)
        with Crew(folder / "frozen", database="postgresql", **SHORT) as crew:
            _frozen(crew)
            _database_lost(crew)


def _killed(what: str, crew: Crew, kills: int, *, is_apart: bool) -> list[float]:
    for number in range(AT_WORK):
        crew.add(f"first-{number}", is_apart=is_apart)
    found, begun_twice = [], 0
    for number in range(kills):
        crew.begin(f"next-{number}", is_apart=is_apart)
        run = crew.open_run(FOREVER)
        victim = crew.await_line("begin", run)
        time.sleep(0.15)  # until the newest one is monitored
        killed_at = time.monotonic()
        os.kill(victim.pid, signal.SIGKILL)
        second = crew.await_line("begin", run, after=victim)
        found.append((second.at - killed_at) * 1000)
        crew.await_line("end", run)
        begun_twice += len(crew.lines("begin", run)) - 1
    _print(f"{what}, milliseconds", found)
    print(f"   {kills} kills, {begun_twice} steps begun again: R4 {begun_twice / kills:.2f} per kill")
    p99 = _p99(found)
    again = round(begun_twice / kills, 2)
    record(
        "takeover",
        [
            Figure(FIGURES[what], f"{p99:.0f} ms", f"{BAR_MS} ms", round(p99 / BAR_MS, 2), "≤ 1"),
            Figure("steps done again per kill", f"{again:.2f}", "1", again, "≤ 1"),
        ],
    )
    return found


def _frozen(crew: Crew) -> None:
    for number in range(AT_WORK):
        crew.add(f"first-{number}")
    found = []
    for _ in range(FREEZES):
        run = crew.open_run(LEASE_SECONDS)
        frozen = crew.await_line("begin", run)
        at = time.monotonic()
        os.kill(frozen.pid, signal.SIGSTOP)
        second = crew.await_line("begin", run, after=frozen)
        found.append((second.at - at) / LEASE_SECONDS)
        crew.await_line("end", run)
        os.kill(frozen.pid, signal.SIGCONT)
        crew.await_line("refused", run)
    figure = Figure("frozen past its lease to the resumed step, longest", "", f"lease of {LEASE_SECONDS:g} s")
    record("takeover", [replace(figure, ratio=round(max(found), 2), bar="≤ 1.5")])
    _print(f"R2 frozen until resumed / lease of {LEASE_SECONDS:g} s", found)


def _database_lost(crew: Crew) -> None:
    assert crew.database is not None
    found = []
    for _ in range(OUTAGES):
        runs = [crew.open_run(1.0) for _ in range(RUNS)]
        begun = [crew.await_line("begin", run) for run in runs]
        crew.database.kill()
        _sleep_until_all_failed(begun)
        restarted_at = time.monotonic()
        crew.database.restart()
        recovered = time.monotonic() - restarted_at
        last = max(crew.await_line("end", run).at for run in runs) - restarted_at
        found.append(last / recovered)
        print(f"   PostgreSQL answers after {recovered:.2f} s, {RUNS} runs are done after {last:.2f} s")
    ratio = round(statistics.median(found), 2)
    record("takeover", [Figure("`kill -9` of PostgreSQL to all runs done", "", "its own recovery", ratio, "≤ 3")])
    _print("R3 all runs done / the server's own recovery", found)


def _sleep_until_all_failed(begun: Sequence[ConductorRecord]) -> None:
    """Wait until all steps have failed: they end while the server is down, so their results cannot be written."""
    time.sleep(max(0.0, max(line.at for line in begun) + 1.5 - time.monotonic()))


def _print(what: str, values: Sequence[float]) -> None:
    middle, longest = statistics.median(values), max(values)
    print(f"{what:45s} p50 {middle:8.2f}  p99 {_p99(values):8.2f}  max {longest:8.2f}", flush=True)


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else KILLS)
