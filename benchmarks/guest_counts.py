"""Cost of keeping the metrics of ten thousand servers for a day: the rows, their writing, a tab, and the pruning.

    python benchmarks/guest_counts.py [--servers 10000] [--on-host 20]

One cell on SQLite files. Each host's sample is a message of its own, stored as by the conductor. Hosts send one every
five minutes, so a round of all of them must take far less.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_flow import SQLITE, database

CELL = "cell1"
ROUNDS_OF_A_DAY = 288
MEASURED = 6  # rounds that are stored one by one; the others of the day are written in bulk
PRUNED = 20  # batches
ROUND_SECONDS = 300
BAR_SHARE = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--servers", type=int, default=10_000)
    parser.add_argument("--on-host", type=int, default=20)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="novella-bench-", ignore_cleanup_errors=True) as name,
        database(SQLITE, Path(name)),
    ):
        measure(given.servers, given.on_host)


def counts(servers: int, on_host: int, turn: int) -> list[Any]:
    """Return the samples of all hosts in one round."""
    from conductor.rpc.messages import GuestsCounted

    figures = [86_400.25 + turn, 812.0, 40_000_000_000 + turn, 90_000_000_000 + turn, 25_000_000_000, 11_000_000_000]
    return [
        GuestsCounted(
            host=f"host-{first // on_host}",
            counted_at=1_800_000_000.25 + turn * 300,
            guests={str(UUID(int=number)): figures for number in range(first, min(first + on_host, servers))},
        )
        for first in range(0, servers, on_host)
    ]


def measure(servers: int, on_host: int) -> None:
    share = take_in(servers, on_host)
    fill_the_day(servers, on_host)
    open_a_tab(servers // 2, on_host)
    prune(servers, on_host)
    sys.exit(share > BAR_SHARE)


def take_in(servers: int, on_host: int) -> float:
    """Return which share of its five minutes a round takes."""
    from conductor.services.servers import guest_metrics

    lines = [message for turn in range(MEASURED) for message in counts(servers, on_host, turn)]
    began = time.perf_counter()
    for message in lines:
        guest_metrics.record(CELL, message)
    each = (time.perf_counter() - began) / len(lines)
    share = each * len(lines) / MEASURED / ROUND_SECONDS
    print(f"taken in: {each * 1e6:.0f} µs for each host, {share:.2%} of a round's five minutes (bar {BAR_SHARE:.0%})")
    return share


def fill_the_day(servers: int, on_host: int) -> None:
    """Write the other rounds, up to the age that is pruned; returns the disk space of all."""
    from django.db import connections

    from conductor.cell_db.models import GuestCount
    from conductor.db.transactions import database_now, write_tx

    rows = GuestCount.objects.using(CELL)
    old = database_now(-2 * 86_400.0)
    for turn in range(MEASURED, ROUNDS_OF_A_DAY):
        lines = counts(servers, on_host, turn)
        made = [GuestCount(host=m.host, counted_at=m.counted_at, guests=m.guests, created_at=old) for m in lines]
        with write_tx(CELL):
            rows.bulk_create(made, batch_size=200)
    with connections[CELL].cursor() as cursor:
        cursor.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        held = cursor.fetchone()[0]
    print(f"a day: {rows.count()} rows, {held / (1 << 20):.0f} MB, {held / servers / 1024:.1f} KB per server")


def open_a_tab(number: int, on_host: int) -> None:
    from django.db.models.fields.json import KeyTransform

    from conductor.cell_db.models import GuestCount
    from conductor.services.servers.guest_metrics import MOST_COUNTS

    key = str(UUID(int=number))
    began = time.perf_counter()
    rows = GuestCount.objects.using(CELL).filter(host__in=[f"host-{number // on_host}"], guests__has_key=key)
    seen = list(rows.order_by("-counted_at").values_list("counted_at", KeyTransform(key, "guests"))[:MOST_COUNTS])
    print(f"a tab: {len(seen)} counts in {(time.perf_counter() - began) * 1000:.1f} ms")


def prune(servers: int, on_host: int) -> None:
    from conductor.cell_db.models import GuestCount
    from conductor.db.transactions import write_tx
    from conductor.services.operations.pruning import kinds
    from conductor.services.operations.pruning.needed import ReferencedRuns

    (kind,) = [one for one in kinds.KINDS if one.name == "metrics"]
    old = kind.over(CELL, 86_400.0, ReferencedRuns(frozenset())).order_by("pk").values_list("pk", flat=True)
    began = time.perf_counter()
    for _ in range(PRUNED):
        with write_tx(CELL):
            GuestCount.objects.using(CELL).filter(pk__in=list(old[:500])).delete()
    each = (time.perf_counter() - began) / PRUNED
    print(f"pruning: {each * 1000:.1f} ms for 500 rows; an hour has {-(-servers // on_host) * 12}")


if __name__ == "__main__":
    main()
