"""Attempts per placement with many concurrent schedulers, and a check that no host is overcommitted.

    python benchmarks/many_deciders.py [--deciders 32] [--hosts 1000] [--rounds 12] [--full 60 98] [--subset 1]

Processes on one PostgreSQL, each with a host table of its own. Each places one server after another and deletes one, so
that the fleet stays equally full. No two hosts have equal weights: all schedulers find the same one best. An attempt is
a claim, granted or lost; overcommitted hosts are counted by SQL on the final allocations.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_flow import POSTGRESQL, database
from benchmarks.load_hosts import ROOM, fill

BAR = 1.2
SLOTS = 32  # servers that an empty host takes
SERVER = {name: amount // SLOTS for name, amount in ROOM.items()}
SPARE_MB = 4000  # less than a server needs: hosts differ by up to this
BATCH = 100
WAIT_SECONDS = 900.0
OVERCOMMITTED = """
    SELECT count(*) FROM (
        SELECT a.provider_id FROM placement_allocation a
        JOIN placement_inventory i ON i.provider_id = a.provider_id AND i.resource_class = a.resource_class
        GROUP BY a.provider_id, a.resource_class, i.total, i.reserved, i.allocation_ratio
        HAVING sum(a.amount) > (i.total - i.reserved) * i.allocation_ratio) AS found"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--deciders", type=int, default=32)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--full", type=int, nargs="+", default=[60, 98])
    parser.add_argument("--subset", type=int, default=1, help="draw among so many best (NOVELLA_HOST_SUBSET_SIZE)")
    options = parser.parse_args()
    if len(options.full) == 1:
        _measure(options)
        return 0
    shared = ["--deciders", options.deciders, "--hosts", options.hosts, "--rounds", options.rounds]
    runs = [["--full", full, *shared, "--subset", options.subset] for full in options.full]
    return max(subprocess.run([sys.executable, __file__, *map(str, run)], check=False).returncode for run in runs)


def _measure(options: argparse.Namespace) -> None:
    os.environ["NOVELLA_HOST_DOWN_SECONDS"] = "3600"
    with tempfile.TemporaryDirectory(prefix="novella-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # the server runs under an account of its own
        with database(POSTGRESQL, Path(name)):
            from django.conf import settings
            from django.core.management import call_command
            from django.db import connection, connections

            settings.NOVELLA_HOST_SUBSET_SIZE = options.subset
            for alias in ("default", "cell0"):
                call_command("migrate", database=alias, verbosity=0)
            fill(options.hosts)
            _take(options.hosts, options.full[0] / 100)
            connections.close_all()
            began = time.perf_counter()
            results = _decide(Path(name), options)
            took = time.perf_counter() - began
            with connection.cursor() as cursor:
                cursor.execute(OVERCOMMITTED)
                overcommitted = cursor.fetchone()[0]
        _report(options, results, took, overcommitted)


def _report(options: argparse.Namespace, results: list[dict[str, int]], took: float, overcommitted: int) -> None:
    placed, lost, refused = (sum(one[what] for one in results) for what in ("placed", "lost", "refused"))
    attempts = (placed + lost) / max(placed, 1)
    print(f"{options.deciders} deciders, {options.hosts:,} hosts {options.full[0]} % full,", end=" ")
    print(f"one of the {options.subset} best: {placed} placed, {refused} refused,", end=" ")
    print(f"{attempts:.2f} attempts per placement (bar {BAR}),", end=" ")
    print(f"{overcommitted} over-commits (bar 0), {placed / took:.0f} per second", flush=True)


def _take(hosts: int, share: float) -> None:
    """Fill each host with one consumer, so that no two have the same free amounts."""
    from conductor.placement.allocations import Claim, claim_many

    dice = random.Random(hosts)
    claims = []
    for index in range(hosts):
        free = (1 - share) * SLOTS
        slots = SLOTS - min(SLOTS, round(dice.uniform(0, 2 * free)))
        amounts = {name: amount * slots for name, amount in SERVER.items()}
        amounts["MEMORY_MB"] -= dice.randrange(SPARE_MB)
        if slots:
            claims.append(Claim(str(uuid4()), str(UUID(int=index + 1)), amounts, "shop", "ana"))
    for start in range(0, len(claims), BATCH):
        claim_many(claims[start : start + BATCH])


def _decide(folder: Path, options: argparse.Namespace) -> list[dict[str, int]]:
    from conductor.scheduler import host_manager, manager  # noqa: F401 - imported once, before the processes are forked

    # On two cores a cell may seem unresponsive to a process behind thirty others: that is not measured here.
    host_manager.scatter_gather = partial(host_manager.scatter_gather, timeout_seconds=WAIT_SECONDS)
    children = [_forked(folder, number, options.rounds) for number in range(options.deciders)]
    (folder / "go").touch()
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    if any(codes):
        raise RuntimeError(f"{sum(map(bool, codes))} deciders failed")
    return [json.loads((folder / f"result-{number}.json").read_text()) for number in range(options.deciders)]


def _forked(folder: Path, number: int, rounds: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        ends = time.monotonic() + WAIT_SECONDS
        while not (folder / "go").exists() and time.monotonic() < ends:
            time.sleep(0.005)
        (folder / f"result-{number}.json").write_text(json.dumps(_work(number, rounds)))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _work(number: int, rounds: int) -> dict[str, int]:
    from django.db import OperationalError

    from conductor.core.context import system_context
    from conductor.core.errors import NoValidHost
    from conductor.core.request_spec import FlavorSpec, RequestSpec
    from conductor.scheduler import decision_log, manager

    dice = random.Random(number)
    flavor = FlavorSpec("1", "slot", SERVER["VCPU"], SERVER["MEMORY_MB"], root_gb=SERVER["DISK_GB"])
    spec = RequestSpec("shop", "ana", flavor)
    counts = {"placed": 0, "lost": 0, "refused": 0}
    held: list[str] = []
    for _ in range(rounds):
        uuid, key = str(uuid4()), str(uuid4())
        try:
            manager.select_destinations(system_context(), spec, [uuid], step_key=key, run_uuid=str(uuid4()))
        except NoValidHost:
            counts["refused"] += 1
            continue
        except OperationalError:  # waited too long behind others: a flow would retry the step
            counts["lost"] += 1
            continue
        finally:
            row: Any = decision_log.find(key)
            counts["lost"] += row.summary["lost_races"] if row else 0
        counts["placed"] += 1
        held.append(uuid)
        if len(held) > 2:
            manager.release(held.pop(dice.randrange(len(held))))
    return counts


if __name__ == "__main__":
    sys.exit(main())
