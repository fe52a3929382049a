"""A flow of eight persisted steps that do nothing else, and the product set up on databases of its own to run it."""

from __future__ import annotations

import os
import sys
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
marks: dict[str, float] = {}  # when a flow that fails began its first step, and when it failed


@contextmanager
def database(kind: str, folder: Path, url: str = "") -> Iterator[Callable[[float], float]]:
    """Set the product up on a database of `kind`; yields what measures its commit limit on one connection.

    `url` names a PostgreSQL server that runs already; without it one is started.
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


def _set_up() -> None:
    import django

    django.setup()
    from django.core.management import call_command

    from conductor.management import databases

    databases.create_missing()
    call_command("migrate", database=ALIAS, verbosity=0)
    from conductor.workflows import catalog

    for flow in (_flow("bench"), _flow("bench_undo", fails=True)):
        catalog._by_version[flow.name, 1] = flow


def _flow(name: str, *, fails: bool = False) -> Any:
    from conductor.core.errors import Conflict
    from conductor.workflows.flow import Flow, Result, Step, Work

    class Nothing(Step):
        title = "nothing"

        def execute(self, work: Work) -> Result:
            return {}

        def revert(self, work: Work, result: Result) -> None:
            pass

    class First(Nothing):
        def execute(self, work: Work) -> Result:
            marks["begun"] = time.perf_counter()
            return {}

        def revert(self, work: Work, result: Result) -> None:
            marks["undone"] = time.perf_counter()

    class Fails(Step):
        title = "fails"

        def execute(self, work: Work) -> Result:
            marks["failed"] = time.perf_counter()
            raise Conflict("as asked")

    return Flow(name, 1, (First(), *(Nothing() for _ in range(STEPS - 1)), *([Fails()] if fails else [])))


def run_flow(flow: str = "bench") -> None:
    """Open a run and take it to its end."""
    from conductor.core.context import system_context
    from conductor.rpc import outbox
    from conductor.transactions import write_tx
    from conductor.workflows import engine

    wanted = outbox.NewRun(
        flow=flow, action=flow, context=system_context(), resources=[f"bench:{os.getpid()}-{next(_numbers)}"]
    )
    with write_tx(ALIAS):
        run = outbox.open_run(ALIAS, wanted)
    engine.run(ALIAS, run.uuid)
