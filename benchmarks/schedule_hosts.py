"""Duration of a scheduling decision, as a ratio to a bare numpy scan of the same hosts in the same run.

    python benchmarks/schedule_hosts.py [--hosts 1000 10000 100000] [--rounds 60]

A cold decision runs the default filters and weighers on a loaded snapshot, without caches from the decision before; a
decision of the same class may use these. The scan is the minimum that any scheduler can do with columns: compare three,
use two flags, sum up a score, take its maximum. All run in turns, so that load on the machine affects all; medians of
processor time are compared.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results import Figure, record
from conductor.core.host_state import HostState, HostTable
from conductor.core.plugin_choice import FILTER, WEIGHER
from conductor.core.request_spec import FlavorSpec, ImageSpec, RequestSpec
from conductor.core.scheduling.decision import explain
from conductor.core.scheduling.decision_cache import DecisionCache
from conductor.core.scheduling.select import Pipeline, SelectionResult, decide
from conductor.core.scheduling.watching import Rules
from conductor.plugins import PluginOptions, load

BAR = 4.0
BATCH = 100
OFFERS = ((("x86_64", "qemu", "hvm"),), (("x86_64", "fake", "hvm"),))
FLAVOR = FlavorSpec("2", "small", 2, 2048, root_gb=20)
SPEC = RequestSpec("shop", "ana", FLAVOR, ImageSpec(properties={"img_hv_type": "qemu", "hw_architecture": "x86_64"}))


def fleet(count: int) -> HostTable:
    """Return hosts of four cells and three zones, partly full; one in fifty is down, one in fifty simulated."""
    dice = random.Random(count)
    return HostTable.from_states(
        tuple(
            HostState(
                host=f"host-{index}",
                node=f"host-{index}",
                cell=f"cell{index % 4 + 1}",
                provider_uuid=f"provider-{index}",
                availability_zone=f"az-{index % 3 + 1}",
                vcpus=64,
                vcpus_used=dice.randrange(200),
                cpu_ratio=4.0,
                memory_mb=262_144,
                memory_mb_used=dice.randrange(250_000),
                disk_gb=4000,
                disk_gb_used=dice.randrange(3500),
                is_up=dice.random() > 0.02,
                num_instances=dice.randrange(40),
                num_io_ops=dice.randrange(4),
                supported_instances=OFFERS[dice.random() < 0.02],
            )
            for index in range(count)
        )
    )


def scan(hosts: HostTable) -> int:
    """Return the best host's row by the sum of three columns, among those with capacity that are up and open."""
    fits = (hosts.free_vcpus >= 2) & (hosts.free_memory_mb >= 2048) & (hosts.free_disk_gb >= 20)
    fits &= hosts.is_up & ~hosts.is_disabled
    score = hosts.free_memory_mb * 1e-5 + hosts.free_vcpus * 1e-2 + hosts.free_disk_gb * 1e-3 - hosts.num_io_ops
    return int(np.where(fits, score, -np.inf).argmax())


def in_turns(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return median seconds of each work."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            began = time.thread_time()
            work()
            taken[name].append(time.thread_time() - began)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def as_shipped() -> Pipeline:
    """Return the default pipeline, with its time limits and statistics."""
    plugins = load(["scheduler_plugins.plugin"], PluginOptions(), finds_installed=False)
    filters = {(FILTER, one.name) for one in plugins.filters}
    weighers = {(WEIGHER, one.name) for one in plugins.weighers}
    rules = Rules(clock=time.perf_counter, trusted=frozenset(filters | weighers))
    return Pipeline(plugins.filters, plugins.weighers, rules=rules)


def with_fixed_ranges(pipeline: Pipeline, hosts: HostTable) -> Pipeline:
    """Return a pipeline whose weighers have fixed ranges, as an operator may set them: those of this fleet."""
    fixed = []
    for one in map(copy, pipeline.weighers):
        column = one.weigh(hosts, SPEC)
        if column.min() < column.max():
            one.minval, one.maxval = float(column.min()), float(column.max())
        fixed.append(one)
    return replace(pipeline, weighers=tuple(fixed))


def taken(hosts: HostTable, row: int) -> HostTable:
    """Return the next table, in which one host has one more instance."""
    state = hosts.states[row]
    more = replace(
        state,
        vcpus_used=state.vcpus_used + 2,
        memory_mb_used=state.memory_mb_used + 2048,
        disk_gb_used=state.disk_gb_used + 20,
        num_instances=state.num_instances + 1,
    )
    return hosts.with_rows({row: more})


def measure(count: int, rounds: int) -> dict[str, float]:
    cold = as_shipped()
    warm = replace(cold, decision_cache=DecisionCache())
    hosts = fleet(count)
    some = {row: hosts.states[row] for row in range(0, count, 100)}
    uuids = [f"new-{index}" for index in range(BATCH)]
    seeds = iter(range(10**9))

    def one(pipeline: Pipeline, of: HostTable, servers: int = 1) -> SelectionResult:
        return decide(of, SPEC, uuids[:servers], pipeline=pipeline, seed=next(seeds))

    outcome = one(warm, hosts)
    works: dict[str, Callable[[], object]] = {
        "scan": lambda: scan(hosts),
        "decision": lambda: one(cold, hosts),
        "remembered": lambda: one(warm, hosts),
        "batch": lambda: one(cold, hosts, BATCH),
        "reasons": lambda: explain(outcome),
        "delta": lambda: hosts.with_rows(some),
    }
    remembering = {"changed": warm, "fixed": replace(with_fixed_ranges(cold, hosts), decision_cache=DecisionCache())}
    return in_turns(works, rounds) | _after_changes(hosts, {"fresh": cold, **remembering}, one, rounds)


def _after_changes(
    hosts: HostTable,
    pipelines: Mapping[str, Pipeline],
    one: Callable[[Pipeline, HostTable], SelectionResult],
    rounds: int,
) -> dict[str, float]:
    """Measure decisions on new tables: the one before, with the chosen host changed.

    Each pipeline has its own sequence of tables, because a table passes cached results to the first table derived from
    it.
    """
    found: dict[str, list[float]] = {name: [] for name in pipelines}
    tables = dict.fromkeys(pipelines, hosts)
    for _ in range(rounds):
        for name, pipeline in pipelines.items():
            following = taken(tables[name], one(pipeline, tables[name]).picks[0])
            began = time.thread_time()
            outcome = one(pipeline, following)
            found[name].append(time.thread_time() - began)
            assert outcome.picks
            tables[name] = following
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def made(count: int) -> tuple[float, float]:
    """Return the seconds to create the table of loaded hosts, and the megabytes of hosts and table."""
    before = _resident_mb()
    states = fleet(count).states
    began = time.thread_time()
    hosts = HostTable.from_states(states)
    took = time.thread_time() - began
    assert len(hosts) == count
    return took, _resident_mb() - before


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    loads = {count: made(count) for count in options.hosts}
    print("| hosts | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    worst = 0.0
    for count in options.hosts:
        found = {name: seconds * 1000 for name, seconds in measure(count, options.rounds).items()}
        ratio = found["decision"] / found["scan"]
        worst = max(worst, ratio if count >= 10_000 else 0.0)
        values = [
            found[name] for name in ("scan", "decision", "remembered", "fresh", "changed", "fixed", "batch", "delta")
        ]
        record("scheduling", _figures(count, found))
        print(
            f"| {count:,} | " + " | ".join(f"{value:.3f} ms" for value in values) + f" | {ratio:.1f} "
            f"| {found['batch'] / found['decision']:.0f} | {found['decision'] + found['reasons']:.3f} ms "
            f"| {loads[count][0]:.2f} s | {loads[count][1]:.0f} MB |"
        )
    print(f"\nWorst ratio from 10,000 hosts on: {worst:.1f} (bar {BAR:.0f}).")


def _figures(count: int, found: dict[str, float]) -> Iterator[Figure]:
    cold, scan, batch = found["decision"], found["scan"], found["batch"]
    where = f"{count:,} hosts"
    limit, ratio = f"bare scan, {scan:.3f} ms", round(cold / scan, 1)
    yield Figure(f"cold decision, {where}", f"{cold:.3f} ms", limit, ratio, f"≤ {BAR:g}")
    name, ratio = f"batch of {BATCH}, {where}", round(batch / cold, 1)
    yield Figure(name, f"{batch:.3f} ms", f"cold decision, {cold:.3f} ms", ratio, "≤ 3")


SHOWN = ("scan", "decision", "remembered", "fresh", "changed", "fixed", "batch", "delta")
COLUMNS = (
    "bare scan",
    "cold decision",
    "the same class again",
    "cold after a change",
    "the same class after a change",
    "the same with fixed ranges",
    f"batch of {BATCH}",
    "delta of 1 %",
    "cold : scan",
    "batch : cold",
    "with its reasons",
    "table made",
    "hosts and table",
)


if __name__ == "__main__":
    main()
