"""Speed of committed placements, as a share of claims of 100 in one bare statement in the same run.

    python benchmarks/claims.py [sqlite | postgresql]

A placement is a commit of the scheduler: 100 consumers on a fleet of 1,000 hosts, three resource classes each, granted
where they fit, with allocations, generations and change number. The bare statement takes the same amounts from a table
of the benchmark's own with three columns, checks that they fit, and does not record consumers. On PostgreSQL it locks
hosts in the order of their ids, like all concurrent claims, to prevent deadlocks. Both run in turns, so that load on
the machine affects both. Statements are counted too, because load does not affect them.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID, uuid4

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_flow import POSTGRESQL, SQLITE, database
from conductor.placement.allocations import Claim

BAR = 0.2
HOSTS = 1000
BATCH = 100
ROUNDS = 25
AMOUNTS = {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}
BARE_TABLE = "CREATE TABLE bare (id INTEGER PRIMARY KEY, vcpu BIGINT, mem BIGINT, disk BIGINT, gen BIGINT DEFAULT 0)"
BARE_CLAIM = """
    WITH want (host, n) AS (VALUES {values}) {held}
    UPDATE bare SET vcpu = vcpu - 2 * want.n, mem = mem - 2048 * want.n, disk = disk - 20 * want.n, gen = gen + 1
    FROM want
    WHERE bare.id = want.host AND vcpu >= 2 * want.n AND mem >= 2048 * want.n AND disk >= 20 * want.n {all_held}
    RETURNING bare.id"""
# SQLite has a single writer.
LOCKS = {
    SQLITE: {"held": "", "all_held": ""},
    POSTGRESQL: {
        "held": ", held AS (SELECT id FROM bare WHERE id IN (SELECT host FROM want) ORDER BY id FOR UPDATE)",
        "all_held": "AND bare.id IN (SELECT id FROM held)",
    },
}


def main(kinds: Sequence[str]) -> int:
    if kinds:
        for kind in kinds:
            _measure(kind)
        return 0
    return max(
        subprocess.run([sys.executable, __file__, kind], check=False).returncode for kind in (SQLITE, POSTGRESQL)
    )


def _measure(kind: str) -> None:
    from django.core.management import call_command

    with tempfile.TemporaryDirectory(prefix="novella-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # the server runs under an account of its own
        with database(kind, Path(name)):
            from conductor.placement.allocations import claim_many

            call_command("migrate", database="default", verbosity=0)
            providers = _fleet()
            dice = random.Random(1)
            ours, bare = [], []
            for _ in range(ROUNDS):
                hosts = [dice.randrange(HOSTS) for _ in range(BATCH)]
                bare.append(_timed(lambda hosts=hosts: _bare(hosts)))
                claims = _claims([providers[host] for host in hosts])
                ours.append(_timed(lambda claims=claims: claim_many(claims)))
            claims = _claims(providers[:BATCH])
            with _counting() as seen:  # separately: counting statements makes them slower
                claim_many(claims)
            _report(kind, ours, bare, len(seen))


def _report(kind: str, ours: list[float], bare: list[float], statements: int) -> None:
    mine, least = statistics.median(ours), statistics.median(bare)
    print(
        f"{kind}: {BATCH / mine:,.0f} placements per second, {BATCH / least:,.0f} claims in one statement of {BATCH}, "
        f"ratio {least / mine:.2f} (bar {BAR}), {statements} statements for {BATCH}"
    )


def _fleet() -> list[str]:
    from django.db import connections

    from conductor.placement.models import ProviderInventory, ResourceProvider

    uuids = [str(UUID(int=index + 1)) for index in range(HOSTS)]
    rows = [ResourceProvider(uuid=uuid, name=f"host-{index}") for index, uuid in enumerate(uuids)]
    for row in ResourceProvider.objects.bulk_create(rows):
        room = [ProviderInventory(provider=row, resource_class=name, total=of * 10_000) for name, of in AMOUNTS.items()]
        ProviderInventory.objects.bulk_create(room)
    with connections["default"].cursor() as cursor:
        cursor.execute(BARE_TABLE)
        for index in range(HOSTS):
            cursor.execute("INSERT INTO bare VALUES (%s, 20000, 20480000, 200000, 0)", [index])
    return uuids


def _claims(providers: list[str]) -> list[Claim]:
    return [Claim(str(uuid4()), provider, AMOUNTS, "shop", "ana") for provider in providers]


def _bare(hosts: list[int]) -> None:
    from django.db import connections

    from conductor.db.transactions import write_tx

    counts: dict[int, int] = {}
    for host in hosts:
        counts[host] = counts.get(host, 0) + 1
    values = ", ".join(f"({host}, {number})" for host, number in sorted(counts.items()))
    connection = connections["default"]
    with write_tx("default"), connection.cursor() as cursor:
        cursor.execute(BARE_CLAIM.format(values=values, **LOCKS[connection.vendor]))
        assert len(cursor.fetchall()) == len(counts)


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@contextmanager
def _counting() -> Iterator[list[str]]:
    from tests.counting import counted

    with counted("default") as seen:
        yield seen.statements


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
