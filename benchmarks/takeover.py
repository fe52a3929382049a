"""How soon the work of a conductor goes on when it dies, freezes, or loses its database.

    python benchmarks/takeover.py [kills]

Real conductors on real brokers work on a flow of one step.

R1  kill -9 of a conductor until another begins its step again, on one machine: by its locked file, on SQLite and on
    PostgreSQL, and by its session on PostgreSQL alone. The lease is ten seconds, so none of it is the lease's doing.
R2  SIGSTOP of a conductor until another begins its step again, as a share of the lease.
R3  kill -9 of PostgreSQL in the middle of the steps of several runs and its restart, until all runs are done, as a
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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.acceptance.crew import Crew, Line

KILLS = 34  # of each kind
FREEZES = 6
OUTAGES = 3
RUNS = 8
AT_WORK = 3
FOREVER = 600.0
LEASE_SECONDS = 2.0
QUIET = {"NOVELLA_LOG_LEVEL": "ERROR"}
SHORT = {**QUIET, "NOVELLA_LEASE_SECONDS": str(LEASE_SECONDS), "NOVELLA_SWEEP_SECONDS": "0.1"}


def main(kills: int) -> None:
    every: list[float] = []
    with tempfile.TemporaryDirectory(prefix="novella-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server runs under an account of its own
        with Crew(folder / "sqlite", **QUIET) as crew:
            every += _killed("R1 SQLite, by file", crew, kills, is_apart=False)
        with Crew(folder / "postgresql", database="postgresql", **QUIET) as crew:
            every += _killed("R1 PostgreSQL, by file", crew, kills, is_apart=False)
        with Crew(folder / "apart", database="postgresql", **QUIET) as crew:
            every += _killed("R1 PostgreSQL, by session", crew, kills, is_apart=True)
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
        time.sleep(0.15)  # so that whoever came last is watched
        killed_at = time.monotonic()
        os.kill(victim.pid, signal.SIGKILL)
        second = crew.await_line("begin", run, after=victim)
        found.append((second.at - killed_at) * 1000)
        crew.await_line("end", run)
        begun_twice += len(crew.lines("begin", run)) - 1
    _print(f"{what}, milliseconds", found)
    print(f"   {kills} kills, {begun_twice} steps begun again: R4 {begun_twice / kills:.2f} per kill")
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
    _print("R3 all runs done / the server's own recovery", found)


def _sleep_until_all_failed(begun: Sequence[Line]) -> None:
    """Their steps are over while the server is away: what they did cannot be written."""
    time.sleep(max(0.0, max(line.at for line in begun) + 1.5 - time.monotonic()))


def _print(what: str, values: Sequence[float]) -> None:
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    print(f"{what:45s} p50 {statistics.median(ordered):8.2f}  p99 {p99:8.2f}  max {ordered[-1]:8.2f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else KILLS)
