"""DBOS: a workflow of eight steps in its system database.

python run_dbos.py <folder> [database url]
"""

from __future__ import annotations

import sys
from pathlib import Path

from dbos import DBOS
from protocol import STEPS, serve


def main(folder: str, url: str = "") -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url or f"sqlite:///{Path(folder) / 'dbos.sqlite3'}",
            "run_admin_server": False,
            "log_level": "CRITICAL",
        }
    )

    @DBOS.step()
    def nothing() -> None:
        return None

    @DBOS.workflow()
    def flow() -> None:
        for _ in range(STEPS):
            nothing()

    DBOS.launch()
    serve(flow)
    DBOS.destroy()


if __name__ == "__main__":
    main(*sys.argv[1:])
