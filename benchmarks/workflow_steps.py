"""Workflow steps per second through the engine, as a share of this machine's commit limit in the same run.

    python benchmarks/workflow_steps.py

A flow of eight persisted steps that do nothing else, run one at a time on the embedded default's SQLite settings; the
limit is measured before and after, in the same directory.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

STEPS = 8
ROUNDS = 5
FLOWS_PER_ROUND = 20


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="novella-bench-") as name:
        directory = Path(name)
        os.environ |= {
            "NOVELLA_DATA": name,
            "NOVELLA_LOG_LEVEL": "WARNING",
            "DJANGO_SETTINGS_MODULE": "portal.settings",
        }
        import django

        django.setup()
        _measure(directory)


def _measure(directory: Path) -> None:
    from django.core.management import call_command

    from benchmarks.commit_limit import commits_per_second
    from conductor.workflows import catalog

    call_command("migrate", database="cell1", verbosity=0)
    catalog._by_version["bench", 1] = _flow()
    _run_flows(3)
    rates, limits, commits = [], [], []
    for _ in range(ROUNDS):
        before = commits_per_second(directory, 1.0)
        began = time.perf_counter()
        commits.append(_run_flows(FLOWS_PER_ROUND) / FLOWS_PER_ROUND)
        rates.append(STEPS * FLOWS_PER_ROUND / (time.perf_counter() - began))
        limits.append((before + commits_per_second(directory, 1.0)) / 2)
    shares = [rate / limit for rate, limit in zip(rates, limits, strict=True)]
    print(f"steps per second      median {statistics.median(rates):8.1f}  (range {min(rates):.1f} to {max(rates):.1f})")
    print(
        f"commit limit per sec  median {statistics.median(limits):8.1f}  (range {min(limits):.1f} to {max(limits):.1f})"
    )
    print(
        f"ratio                 median {statistics.median(shares):8.3f}  (range {min(shares):.3f} to {max(shares):.3f})"
    )
    print(f"transactions per flow of {STEPS} steps: {statistics.median(commits):.1f}")


def _flow():  # type: ignore[no-untyped-def]
    from conductor.workflows.flow import Flow, Result, Step, Work

    class Nothing(Step):
        title = "nothing"

        def execute(self, work: Work) -> Result:
            return {}

    return Flow("bench", 1, tuple(Nothing() for _ in range(STEPS)))


def _run_flows(count: int) -> int:
    """Run flows one after another; returns the number of transactions that it took."""
    from django.db import connections

    from conductor.core.context import system_context
    from conductor.rpc import outbox
    from conductor.transactions import write_tx
    from conductor.workflows import engine

    begun = 0

    def count_begins(execute, sql, params, many, context):  # type: ignore[no-untyped-def]
        nonlocal begun
        begun += sql.startswith("BEGIN")
        return execute(sql, params, many, context)

    with connections["cell1"].execute_wrapper(count_begins):
        for number in range(count):
            with write_tx("cell1"):
                run = outbox.open_run(
                    "cell1",
                    outbox.NewRun(
                        flow="bench",
                        action="bench",
                        context=system_context(),
                        resources=[f"bench:{number}"],
                    ),
                )
            engine.run("cell1", run.uuid)
    return begun


if __name__ == "__main__":
    main()
