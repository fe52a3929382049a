"""A flow of eight persisted no-op steps, and the product set up on databases of its own to run it."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

STEPS = 8
ALIAS = "cell1"
SQLITE, POSTGRESQL = "sqlite", "postgresql"
_numbers = count()
marks: dict[str, float] = {}  # begin of a failing flow's first step, and of its failure


@contextmanager
def database(kind: str, folder: Path, url: str = "") -> Iterator[Callable[[float], float]]:
    """Set the product up on a database of `kind`; yields a function that measures its commit limit on one connection.

    `url` names a running PostgreSQL server; without it one is started.
    """
    os.environ |= {
        "NOVELLA_DATA": str(folder),
        "NOVELLA_LOG_LEVEL": "ERROR",
        "DJANGO_SETTINGS_MODULE": "portal.settings",
    }
    if kind == SQLITE:
        from benchmarks.commit_limit import commits_per_second

        _set_up()
        yield lambda seconds: commits_per_second(folder, seconds)
        return
    from benchmarks.commit_limit import postgresql_commits_per_second
    from tests.services import postgresql

    server = None if url else postgresql.start(folder / "postgresql")
    try:
        os.environ["NOVELLA_DATABASE_URL"] = found = server.url if server else url
        _set_up()
        yield lambda seconds: postgresql_commits_per_second(found.rpartition("/")[0] + "/postgres", seconds)
    finally:
        from django.db import connections

        connections.close_all()
        if server:
            server.stop()


@contextmanager
def all_databases() -> Iterator[None]:
    """Set the product up on SQLite files of a cell, of the API and of cell0, in a folder that goes afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="novella-bench-", ignore_cleanup_errors=True) as name,
        database(SQLITE, Path(name)),
    ):
        from django.core.management import call_command

        call_command("migrate", database="cell0", verbosity=0)
        yield


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process with all its threads, as Linux counts it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _set_up() -> None:
    import django

    django.setup()
    from django.core.management import call_command

    from conductor.management import databases

    databases.create_missing()
    for alias in ("default", ALIAS):  # an executor looks in the first whether the cell is in quarantine
        call_command("migrate", database=alias, verbosity=0)
    from conductor.workflows import catalog

    for flow in (_flow("bench"), _flow("bench_undo", fails=True)):
        catalog._by_version[flow.name, 1] = flow


def _flow(name: str, *, fails: bool = False) -> Any:
    from conductor.core.errors import Conflict
    from conductor.workflows.flow import Flow, Result, Step, StepContext

    class Nothing(Step):
        title = "nothing"

        def execute(self, work: StepContext) -> Result:
            return {}

        def revert(self, work: StepContext, result: Result) -> None:
            pass

    class First(Nothing):
        def execute(self, work: StepContext) -> Result:
            marks["begun"] = time.perf_counter()
            return {}

        def revert(self, work: StepContext, result: Result) -> None:
            marks["undone"] = time.perf_counter()

    class Fails(Step):
        title = "fails"

        def execute(self, work: StepContext) -> Result:
            marks["failed"] = time.perf_counter()
            raise Conflict("as asked")

    return Flow(name, 1, (First(), *(Nothing() for _ in range(STEPS - 1)), *([Fails()] if fails else [])))


def run_flow(flow: str = "bench") -> None:
    """Open a run and execute it to its end."""
    from conductor.core.context import system_context
    from conductor.db.transactions import write_tx
    from conductor.rpc import outbox
    from conductor.workflows.engine import executor

    wanted = outbox.NewRun(
        flow=flow, action=flow, context=system_context(), resources=[f"bench:{os.getpid()}-{next(_numbers)}"]
    )
    with write_tx(ALIAS):
        run = outbox.open_run(ALIAS, wanted)
    executor.run(ALIAS, run.uuid)
