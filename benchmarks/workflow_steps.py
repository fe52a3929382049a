"""Workflow steps through the engine, as a share of this machine's commit limit in the same run.

    python benchmarks/workflow_steps.py [sqlite | postgresql]

A flow of eight persisted no-op steps: one flow at a time, 32 concurrent ones in one process, on PostgreSQL also in two,
each pinned to a core or not, and eight compensations compared with eight steps. The limit is measured before and after
each round, on the same disk or server. Without an argument both databases are measured, each in a process of its own;
PostgreSQL is a private server of the benchmark's own.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_flow import ALIAS, POSTGRESQL, SQLITE, STEPS, database, marks, run_flow
from benchmarks.results import Figure, record

ROUNDS = 5
FLOWS_PER_ROUND = 20
IN_FLIGHT = 32
FLOWS_PER_THREAD = 8
PROCESSES = {SQLITE: (1,), POSTGRESQL: (1, 2)}  # SQLite serves one process
LOOSE, KEPT = "", ", each kept to a core"
UNDONE_PER_ROUND = 10


def main(kinds: Sequence[str]) -> int:
    if kinds:
        for kind in kinds:
            _measure(kind)
        return 0
    return max(
        subprocess.run([sys.executable, __file__, kind], check=False).returncode for kind in (SQLITE, POSTGRESQL)
    )


def _measure(kind: str) -> None:
    with tempfile.TemporaryDirectory(prefix="novella-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # the server runs under an account of its own
        with database(kind, Path(name)) as limit:
            print(f"-- {kind}")
            _rounds(kind, limit)
            _count()


def _rounds(kind: str, limit: Callable[[float], float]) -> None:
    limits, alone, cpu, undone, ended = [], [], [], [], []
    together: dict[tuple[int, str], list[float]] = {way: [] for way in product(PROCESSES[kind], (LOOSE, KEPT))}
    _one_at_a_time(3)
    for _ in range(ROUNDS):
        before = limit(0.7)
        began = time.process_time()
        alone.append(_one_at_a_time(FLOWS_PER_ROUND))
        cpu.append((time.process_time() - began) / (FLOWS_PER_ROUND * STEPS) * 1000)
        between = limit(0.7)
        for (processes, how), rates in together.items():
            rates.append(_at_once(processes, is_kept=how == KEPT))
        limits.append((before + between + limit(0.7)) / 3)
        shares = _undo_shares()
        undone.append(shares[0])
        ended.append(shares[1])
    _print("commit limit per second", limits)
    _print("W1 steps per second, one flow at a time", alone)
    _print("W1 ratio to the limit", [rate / bar for rate, bar in zip(alone, limits, strict=True)])
    for (processes, how), rates in together.items():
        _print(f"W2 steps per second, {IN_FLIGHT} flows, {processes} process(es){how}", rates)
        _print("W2 ratio to the limit", [rate / bar for rate, bar in zip(rates, limits, strict=True)])
    _print("W5 CPU milliseconds per step", cpu)
    _print(f"W6 undoing {STEPS} steps / forward execution", undone)
    _print("   the same with the end of the run", ended)
    _record(kind, limits, alone, together[max(PROCESSES[kind]), KEPT], undone)


def _record(
    kind: str, limits: Sequence[float], alone: Sequence[float], together: Sequence[float], undone: Sequence[float]
) -> None:
    name = "PostgreSQL" if kind == POSTGRESQL else "SQLite"
    limit = f"commit limit, {statistics.median(limits):,.0f} per second"
    one, many = (
        round(statistics.median(rate / bar for rate, bar in zip(rates, limits, strict=True)), 3)
        for rates in (alone, together)
    )
    figures = [
        Figure(f"one flow at a time, {name}", "", limit, one, f"≥ {0.12 if kind == POSTGRESQL else 0.25}"),
        Figure(
            f"compensating {STEPS} steps, {name}", "", "forward execution", round(statistics.median(undone), 3), "≤ 1.2"
        ),
    ]
    if kind == SQLITE:
        rate = f"{statistics.median(together):,.0f} steps per second"
        figures.append(Figure(f"{IN_FLIGHT} flows, one process pinned to a core, {name}", rate, limit, many, "≥ 1"))
    record("steps", figures)


def _one_at_a_time(flows: int) -> float:
    began = time.perf_counter()
    for _ in range(flows):
        run_flow()
    return STEPS * flows / (time.perf_counter() - began)


def _at_once(processes: int, *, is_kept: bool) -> float:
    """Return steps per second of many threads in so many processes, with `--core` or without."""
    from django.db import connections

    connections.close_all()  # a child must not share its parent's connections
    starts, ready, done = os.pipe(), os.pipe(), os.pipe()
    cores: list[int | None] = [*sorted(os.sched_getaffinity(0))] if is_kept else [None]
    children = [
        _forked(IN_FLIGHT // processes, cores[number % len(cores)], (starts[0], ready[1], done[1]))
        for number in range(processes)
    ]
    _read(ready[0], processes)
    began = time.perf_counter()
    os.write(starts[1], b"." * processes)
    _read(done[0], processes)
    seconds = time.perf_counter() - began
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    for descriptor in (*starts, *ready, *done):
        os.close(descriptor)
    return STEPS * FLOWS_PER_THREAD * IN_FLIGHT / seconds


def _forked(threads: int, core: int | None, pipes: tuple[int, int, int]) -> int:
    """Start a process that runs flows once `start` can be read; it reports open connections through `ready`."""
    from conductor.management.conductor_process import keep_to_core

    start, ready, done = pipes
    child = os.fork()
    if child:
        return child
    try:
        if core is not None:
            keep_to_core(core)
        _run_flows(threads, lambda: (os.write(ready, b"."), os.read(start, 1)))
        os.write(done, b".")
        os._exit(0)
    finally:
        os._exit(1)


def _run_flows(count: int, wait_for_start: Callable[[], object]) -> None:
    barrier = threading.Barrier(count + 1)

    def work() -> None:
        from django.db import connections

        run_flow()
        barrier.wait()
        barrier.wait()
        for _ in range(FLOWS_PER_THREAD):
            run_flow()
        connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    barrier.wait()
    wait_for_start()
    barrier.wait()
    for thread in threads:
        thread.join()


def _read(descriptor: int, count: int) -> None:
    for _ in range(count):
        os.read(descriptor, 1)


def _undo_shares() -> tuple[float, float]:
    """Return the time from the failure to the first compensated step, and to the end, as shares of the time before it.

    Forward steps and compensations take equally many transactions; the end of a run is one more, with its locks and
    queue entries.
    """
    undone, ended = [], []
    for _ in range(UNDONE_PER_ROUND):
        run_flow("bench_undo")
        duration = marks["failed"] - marks["begun"]
        undone.append((marks["undone"] - marks["failed"]) / duration)
        ended.append((time.perf_counter() - marks["failed"]) / duration)
    return statistics.median(undone), statistics.median(ended)


def _count() -> None:
    from tests.counting import counted

    with counted(ALIAS) as seen:
        run_flow()
    print(f"W5 per flow of {STEPS} steps: {seen.transactions} transactions, {len(seen.statements)} statements")


def _print(what: str, values: Sequence[float]) -> None:
    print(f"{what:45s} median {statistics.median(values):9.3f}  (range {min(values):.3f} to {max(values):.3f})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
