"""TaskFlow, as OpenStack's services use it: a linear flow of eight tasks, persisted by SQLAlchemy.

python run_taskflow.py <folder> [database url]
"""

from __future__ import annotations

import contextlib
import logging
import sys
from pathlib import Path

from protocol import STEPS, serve
from taskflow import engines, task
from taskflow.patterns import linear_flow
from taskflow.persistence import backends


class Nothing(task.Task):
    def execute(self) -> None:
        return None


def main(folder: str, url: str = "") -> None:
    logging.disable(logging.CRITICAL)
    backend = backends.fetch({"connection": url or f"sqlite:///{Path(folder) / 'taskflow.sqlite3'}"})
    with contextlib.closing(backend.get_connection()) as connection:
        connection.upgrade()

    def run_flow() -> None:
        flow = linear_flow.Flow("bench").add(*(Nothing(name=f"step-{number}") for number in range(STEPS)))
        engines.run(flow, backend=backend, engine="serial")

    serve(run_flow)


if __name__ == "__main__":
    main(*sys.argv[1:])
