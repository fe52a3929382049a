"""This engine, for workflow_peers.py: python run_novella.py <folder> [postgresql]."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.bench_flow import POSTGRESQL, SQLITE, database, run_flow
from benchmarks.peers.protocol import serve


def main(folder: str, url: str = "") -> None:
    with database(POSTGRESQL if url else SQLITE, Path(folder), url):
        serve(run_flow)


if __name__ == "__main__":
    main(*sys.argv[1:])
