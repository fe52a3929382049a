"""Decisions per second compared with Nova's own scheduler, on the same hosts, in turns in the same run.

    python benchmarks/schedule_peer.py [--hosts 1000 10000] [--rounds 12]

Both decide for one server of the same flavor and image with their default filters and weighers, on hosts in memory,
without claims. For Nova only `get_filtered_hosts` and `get_weighed_hosts` are measured; its other work for each
request, above all querying placement and reading hosts, services and instances, is not, and its limit of 1,000
candidates per request is not applied with more hosts. Ours is a cold decision, which begins with the capacity check
that placement would do; its duration with reasons, and for a cached class, is reported too. Nova is its package from
PyPI, in an environment of its own that is created if missing. Processor time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.peers.child import Child
from benchmarks.schedule_hosts import FLAVOR, SPEC, as_shipped, fleet
from conductor.core.host_state import HostTable
from conductor.core.scheduling.decision import explain
from conductor.core.scheduling.decision_cache import DecisionCache
from conductor.core.scheduling.select import SelectionResult, decide
from tests.services import nova_environment

BAR = 100.0
PEER = Path(__file__).resolve().parent / "peers" / "run_nova_scheduler.py"
COLUMNS = ("host", "cell", "vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "disk_gb", "disk_gb_used")
MORE = ("cpu_ratio", "num_instances", "num_io_ops", "supported_instances", "is_up")


class Peer:
    """Nova's scheduler in a process of its own."""

    def __init__(self, hosts: HostTable) -> None:
        self._child = Child([str(nova_environment.python()), str(PEER)], subprocess.DEVNULL)
        rows = [{name: getattr(state, name) for name in (*COLUMNS, *MORE)} for state in hosts.states]
        flavor = {"vcpus": FLAVOR.vcpus, "memory_mb": FLAVOR.memory_mb, "root_gb": FLAVOR.root_gb}
        self._child.say(json.dumps({"hosts": rows, "flavor": flavor, "properties": dict(SPEC.image.properties)}))
        if self._child.read() != "ready":
            raise SystemExit("Nova's scheduler did not start.")

    def decide(self) -> tuple[float, int, float]:
        """Return seconds, candidates, and the weight of the best one."""
        self._child.say("go")
        seconds, count, _, weight = self._child.read().split()
        return float(seconds), int(count), float(weight)

    def stop(self) -> None:
        self._child.stop()


def measure(count: int, rounds: int) -> float:
    """Print the figures of one fleet; returns the ratio of decisions per second."""
    hosts = fleet(count)
    cold = as_shipped()
    warm = replace(cold, decision_cache=DecisionCache())
    outcome = decide(hosts, SPEC, ["new"], pipeline=cold, seed=1)
    decide(hosts, SPEC, ["new"], pipeline=warm, seed=1)
    works: dict[str, Callable[[], object]] = {
        "cold": lambda: decide(hosts, SPEC, ["new"], pipeline=cold, seed=1),
        "explained": lambda: explain(decide(hosts, SPEC, ["new"], pipeline=cold, seed=1)),
        "warm": lambda: decide(hosts, SPEC, ["new"], pipeline=warm, seed=1),
    }
    peer = Peer(hosts)
    try:
        _same_answer(outcome, peer)
        taken: dict[str, list[float]] = {name: [] for name in ("nova", *works)}
        for _ in range(rounds):
            taken["nova"].append(peer.decide()[0])
            for name, work in works.items():
                began = time.thread_time()
                work()
                taken[name].append(time.thread_time() - began)
    finally:
        peer.stop()
    found = {name: statistics.median(seconds) for name, seconds in taken.items()}
    ratios = {name: found["nova"] / found[name] for name in works}
    print(
        f"| {count:,} | {found['nova'] * 1000:.1f} ms | "
        + " | ".join(f"{found[name] * 1000:.3f} ms ({ratios[name]:,.0f})" for name in works)
        + " |",
        flush=True,
    )
    return ratios["cold"]


def _same_answer(outcome: SelectionResult, peer: Peer) -> None:
    """Check that both pass as many hosts and find the same maximum weight; otherwise their requests differed."""
    _, count, weight = peer.decide()
    ours = outcome.shown.weighing
    if count != ours.count or abs(weight - float(ours.totals.max())) > 1e-9:
        raise SystemExit(f"{count} hosts and {weight} there, {ours.count} and {ours.totals.max()} here")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    print("| hosts | Nova's filters and weighers | cold decision | with its reasons | class known |")
    print("|---|---|---|---|---|")
    worst = min(measure(count, options.rounds) for count in options.hosts)
    print(f"\nIn brackets: how many times as many decisions per second. Least, cold: {worst:,.0f} (bar {BAR:.0f}).")


if __name__ == "__main__":
    main()
