"""Workflow steps per second compared with the durable engines TaskFlow and DBOS, in turns within seconds.

    python benchmarks/workflow_peers.py [rounds]

The work is the same: a linear flow of eight persisted no-op steps, one flow at a time and in eight threads, on SQLite
and on a private PostgreSQL server. Each engine runs in a process of its own with its own defaults; turns are short, so
that load on the machine affects all, and each round gives one ratio. The engines are installed from PyPI into
var/bench-peers if missing.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_flow import POSTGRESQL, SQLITE
from benchmarks.peers.child import Child
from benchmarks.results import Figure, record
from tests.services import postgresql

PEERS = Path(__file__).resolve().parent / "peers"
ENVIRONMENT = PEERS.parents[1] / "var" / "bench-peers"
ENGINES = ("novella", "taskflow", "dbos")
THREADS = (1, 8)
SECONDS = 1.0
# The bars: (threads, peer) → required ratio on SQLite and on PostgreSQL.
BARS = {(1, "taskflow"): (40, 15), (8, "dbos"): (6, 2)}


VERSIONS = {"taskflow": "TaskFlow 6.5.0", "dbos": "DBOS 3.4.0"}
RECORDED = {"taskflow": (40, 15), "dbos": (6, 2)}  # peer → bars of the stored figures, with eight threads


class Engine:
    """An engine's process; `go` runs flows for a while."""

    def __init__(self, name: str, folder: Path, url: str) -> None:
        python = sys.executable if name == "novella" else str(ENVIRONMENT / "bin" / "python")
        command = [python, str(PEERS / f"run_{name}.py"), str(folder), *([url] if url else [])]
        self._log = (folder / f"{name}.log").open("w")
        self._child = Child(command, self._log, folder)
        if self._child.read() != "ready":
            raise SystemExit(f"{name} did not start:\n{(folder / f'{name}.log').read_text()[-3000:]}")

    def go(self, threads: int) -> float:
        """Return steps per second."""
        self._child.say(f"go {threads} {SECONDS}")
        steps, seconds, _ = (float(word) for word in self._child.read().split())
        return steps / seconds

    def stop(self) -> None:
        self._child.stop()
        self._log.close()


def main(rounds: int) -> None:
    _install()
    for kind in (SQLITE, POSTGRESQL):
        with tempfile.TemporaryDirectory(prefix="novella-peers-", ignore_cleanup_errors=True) as name:
            Path(name).chmod(0o755)  # the server runs under an account of its own
            _measure(kind, Path(name), rounds)


def _install() -> None:
    uv = [str(Path(sys.executable).parent / "uv")]
    if not (ENVIRONMENT / "bin" / "python").exists():
        subprocess.run([*uv, "venv", "-q", "--python", sys.executable, str(ENVIRONMENT)], check=True)
    python = str(ENVIRONMENT / "bin" / "python")
    subprocess.run([*uv, "pip", "install", "-q", "--python", python, "-r", str(PEERS / "requirements.txt")], check=True)


def _measure(kind: str, folder: Path, rounds: int) -> None:
    server = postgresql.start(folder / "postgresql") if kind == POSTGRESQL else None
    engines: dict[str, Engine] = {}
    try:
        for name in ENGINES:
            engines[name] = Engine(name, folder, _url_for(name, server))
        rates = {(threads, name): [] for threads in THREADS for name in ENGINES}  # type: dict[tuple[int, str], list[float]]
        for _ in range(rounds):
            for threads in THREADS:
                for name in ENGINES:
                    rates[threads, name].append(engines[name].go(threads))
    finally:
        for engine in engines.values():
            engine.stop()
        if server is not None:
            server.stop()
    _report(kind, rates)


def _url_for(name: str, server: postgresql.Service | None) -> str:
    if server is None or name == "novella":
        return server.url if server else ""
    server.psql(f"CREATE DATABASE {name}_bench")
    return server.url.rpartition("/")[0] + f"/{name}_bench"


def _report(kind: str, rates: dict[tuple[int, str], list[float]]) -> None:
    print(f"-- {kind}")
    for (threads, name), found in rates.items():
        print(f"{name:10s} {threads} threads  {_spread(found)} steps per second")
    for threads in THREADS:
        for peer in ENGINES[1:]:
            pairs = zip(rates[threads, "novella"], rates[threads, peer], strict=True)
            ratios = [ours / theirs for ours, theirs in pairs]
            bars = BARS.get((threads, peer))
            bar = f"  (bar {bars[kind == POSTGRESQL]})" if bars else ""
            if threads == max(THREADS):
                bound = RECORDED[peer][kind == POSTGRESQL]
                name = f"{'PostgreSQL' if kind == POSTGRESQL else 'SQLite'}, {threads} threads"
                version = VERSIONS[peer]
                record("steps_peers", [Figure(name, "", version, round(statistics.median(ratios), 1), f"≥ {bound}")])
            print(f"novella / {peer:8s} {threads} threads  {_spread(ratios)}{bar}")


def _spread(values: list[float]) -> str:
    return f"median {statistics.median(values):8.1f}  (range {min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
