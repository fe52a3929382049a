"""How long a scheduling decision takes, as a ratio to a bare numpy scan of the same hosts in the same run.

    python benchmarks/schedule_hosts.py [--hosts 1000 10000 100000] [--rounds 60]

The decision goes through the filters and weighers that run by default on a snapshot that is at hand, nothing remembered
from the decision before. The scan is the least that any scheduler can do with columns: compare three, take the two
flags, add up a score, take its greatest. Both run in turns, so that a busy machine slows both; medians of processor
time are compared.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conductor.core.host_state import HostState, HostTable
from conductor.core.plugin_choice import FILTER, WEIGHER
from conductor.core.request_spec import FlavorSpec, ImageSpec, RequestSpec
from conductor.core.scheduling.decision import explain
from conductor.core.scheduling.select import Pipeline, decide
from conductor.core.scheduling.watching import Rules
from conductor.plugins import PluginOptions, load

BAR = 4.0
BATCH = 1000
OFFERS = ((("x86_64", "qemu", "hvm"),), (("x86_64", "fake", "hvm"),))
FLAVOR = FlavorSpec("2", "small", 2, 2048, root_gb=20)
SPEC = RequestSpec("shop", "ana", FLAVOR, ImageSpec(properties={"img_hv_type": "qemu", "hw_architecture": "x86_64"}))


def fleet(count: int) -> HostTable:
    """Hosts of four cells and three zones, part full; one in fifty is down, one in fifty simulated."""
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
    """The row of the best host by the sum of three columns among those with room that are up and open."""
    fits = (hosts.free_vcpus >= 2) & (hosts.free_memory_mb >= 2048) & (hosts.free_disk_gb >= 20)
    fits &= hosts.is_up & ~hosts.is_disabled
    score = hosts.free_memory_mb * 1e-5 + hosts.free_vcpus * 1e-2 + hosts.free_disk_gb * 1e-3 - hosts.num_io_ops
    return int(np.where(fits, score, -np.inf).argmax())


def in_turns(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each work."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            began = time.thread_time()
            work()
            taken[name].append(time.thread_time() - began)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def as_shipped() -> Pipeline:
    """What decides where no operator says otherwise, with clocks and accounts."""
    plugins = load(["scheduler_plugins.plugin"], PluginOptions(), finds_installed=False)
    filters = {(FILTER, one.name) for one in plugins.filters}
    weighers = {(WEIGHER, one.name) for one in plugins.weighers}
    rules = Rules(clock=time.perf_counter, trusted=frozenset(filters | weighers))
    return Pipeline(plugins.filters, plugins.weighers, rules=rules)


def measure(count: int, rounds: int) -> dict[str, float]:
    pipeline = as_shipped()
    hosts = fleet(count)
    some = {row: hosts.states[row] for row in range(0, count, 100)}
    uuids = [f"new-{index}" for index in range(BATCH)]
    seeds = iter(range(10**9))

    def one() -> object:
        return decide(hosts, SPEC, uuids[:1], pipeline=pipeline, seed=next(seeds))

    outcome = decide(hosts, SPEC, uuids[:1], pipeline=pipeline, seed=0)
    works: dict[str, Callable[[], object]] = {
        "scan": lambda: scan(hosts),
        "decision": one,
        "reasons": lambda: explain(outcome),
        "delta": lambda: hosts.with_rows(some),
    }
    found = in_turns(works, rounds)
    began = time.thread_time()
    batch = decide(hosts, SPEC, uuids, pipeline=pipeline, seed=0)
    found["batch"] = (time.thread_time() - began) / BATCH
    assert len(batch.picks) in (0, BATCH)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    print(
        "| hosts | bare scan | decision | ratio | with its reasons | per instance in a batch of 1,000 | delta of 1 % |"
    )
    print("|---|---|---|---|---|---|---|")
    worst = 0.0
    for count in options.hosts:
        found = {name: seconds * 1000 for name, seconds in measure(count, options.rounds).items()}
        ratio = found["decision"] / found["scan"]
        worst = max(worst, ratio if count >= 10_000 else 0.0)
        print(
            f"| {count:,} | {found['scan']:.3f} ms | {found['decision']:.3f} ms | {ratio:.1f} "
            f"| {found['decision'] + found['reasons']:.3f} ms | {found['batch']:.3f} ms | {found['delta']:.3f} ms |"
        )
    print(f"\nWorst ratio from 10,000 hosts on: {worst:.1f} (bar {BAR:.0f}).")


if __name__ == "__main__":
    main()
