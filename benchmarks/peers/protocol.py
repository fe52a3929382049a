"""Protocol between a benchmark and an engine in a process of its own: lines on standard input and output.

"go <threads> <seconds>" runs flows in that many threads for that long; the answer is "<steps> <seconds> <cpu>". Only
the standard library: the engines are installed in different environments.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

STEPS = 8


def serve(run_flow: Callable[[], object]) -> None:
    """Answer until standard input ends. The first flow is not counted."""
    out, sys.stdout = sys.stdout, sys.stderr  # output of the engine must not mix with the answers
    run_flow()
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        _, threads, seconds = line.split()
        steps, wall, cpu = _run(run_flow, int(threads), float(seconds))
        print(steps, wall, cpu, file=out, flush=True)


def _run(run_flow: Callable[[], object], threads: int, seconds: float) -> tuple[int, float, float]:
    flows = [0] * threads
    began, cpu_began = time.perf_counter(), time.process_time()

    def work(place: int) -> None:
        while time.perf_counter() - began < seconds:
            run_flow()
            flows[place] += 1

    if threads == 1:
        work(0)
    else:
        workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return sum(flows) * STEPS, time.perf_counter() - began, time.process_time() - cpu_began
