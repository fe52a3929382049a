"""Cost of runs that wait for a host, for their conductor: memory, processor time and threads.

    python benchmarks/parked.py [runs]

One real conductor claims that many runs, each of which has a host migrate a running guest and waits for it. The host
never answers, so each command is sent again every minute, as in a migration that takes hours. Measured are the
conductor alone, and then with all runs waiting.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_flow import processor_seconds
from tests.acceptance.crew import Crew

RUNS = 5_000
LOOK_SECONDS = 8.0
PARK_SECONDS = 600.0
# The host counts as up for the whole time, without heartbeats.
PATIENT = {"NOVELLA_LOG_LEVEL": "ERROR", "NOVELLA_HOST_DOWN_SECONDS": "3600"}


@dataclass(frozen=True)
class Cost:
    """Cost of one process: bytes of memory, seconds of processor time per second, threads."""

    memory: int
    processor: float
    threads: int


def main(runs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="novella-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server runs under an account of its own
        with Crew(folder / "crew", database="postgresql", **PATIENT) as crew:
            pid = crew.add("only")
            before = _cost(pid)
            began = time.perf_counter()
            crew.open_parked(runs)
            _await_parked(crew, runs)
            seconds = time.perf_counter() - began
            after = _cost(pid)
    print(f"{runs} runs opened and parked in {seconds:.1f} s: {runs / seconds:.0f} per second")
    _print("alone", before)
    _print(f"with {runs} runs parked", after)
    print(f"memory per parked run: {max(0, after.memory - before.memory) / runs / 1024:.2f} KiB; ", end="")
    print(f"threads more: {after.threads - before.threads}")


def _await_parked(crew: Crew, runs: int) -> None:
    deadline = time.monotonic() + PARK_SECONDS
    while (parked := crew.parked()) < runs:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{parked} of {runs} runs are parked\n{crew.log()[-2000:]}")
        time.sleep(0.25)


def _cost(pid: int) -> Cost:
    time.sleep(1.0)
    began, used = time.monotonic(), processor_seconds(pid)
    time.sleep(LOOK_SECONDS)
    share = (processor_seconds(pid) - used) / (time.monotonic() - began)
    status = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    return Cost(int(status["VmRSS"].split()[0]) * 1024, share, int(status["Threads"]))


def _print(what: str, cost: Cost) -> None:
    print(f"{what:30s} {cost.memory / 2**20:7.1f} MiB  {cost.processor * 100:5.1f} % of a core  {cost.threads} threads")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
