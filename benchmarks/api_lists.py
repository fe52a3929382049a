"""Duration of a server list, as a ratio to bare SQL and JSON for an answer of the same size in the same run.

    python benchmarks/api_lists.py [servers] [rounds]

100,000 servers of one project are in ten cells. An administrator and a member request the first 1,000 with their
details, and the last 1,000 of a walk through all pages, through the whole stack of the API in this process. The bare
version is the minimum for the same answer: one statement per cell for the displayed columns, as many rows as the page
takes from each, JSON columns parsed, and all of it written as JSON. All run in turns, so that load on the machine
affects all; medians are compared.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_cloud import CELLS, fill, set_up, uuid_of
from benchmarks.results import Figure, record

SERVERS = 100_000
ROUNDS = 15
LIMIT = 1000
BAR_RATIO, BAR_LAST, BAR_MILLISECONDS = 2.0, 1.3, 150.0
DETAIL = f"/compute/v2.1/servers/detail?limit={LIMIT}"
JSON_COLUMNS = ("flavor", "image", "addresses", "metadata", "tags", "scheduler_hints", "security_groups")
COLUMNS = (
    "uuid",
    "project_id",
    "user_id",
    "name",
    "hostname",
    "description",
    "vm_state",
    "task_state",
    "power_state",
    "host",
    "node",
    "availability_zone",
    "pinned_availability_zone",
    "key_name",
    "user_data",
    "config_drive",
    "disk_config",
    "access_ip_v4",
    "access_ip_v6",
    "reservation_id",
    "launch_index",
    "is_locked",
    "locked_reason",
    "created_at",
    "updated_at",
    "launched_at",
    "terminated_at",
    *JSON_COLUMNS,
)


def bare(project_id: str) -> int:
    """Return the newest servers of all cells as hand-written JSON; how many."""
    from django.db import connections

    sql = (
        f"SELECT {', '.join(COLUMNS)} FROM cell_db_instance WHERE project_id = %s AND deleted_at IS NULL "
        "ORDER BY created_at DESC, uuid LIMIT %s"
    )
    found: list[dict[str, Any]] = []
    for cell in CELLS:
        with connections[cell].cursor() as cursor:
            cursor.execute(sql, [project_id, LIMIT // len(CELLS)])
            found += [dict(zip(COLUMNS, row, strict=True)) for row in cursor.fetchall()]
    found.sort(key=lambda row: row["created_at"], reverse=True)
    for row in found:
        for name in JSON_COLUMNS:
            row[name] = json.loads(row[name])
    json.dumps({"servers": found}, default=str)
    return len(found)


def main(servers: int, rounds: int) -> int:
    with tempfile.TemporaryDirectory(prefix="novella-bench-") as name:
        people = set_up(Path(name))
        fill(people.ana.context(), servers)
        import portal.asgi  # noqa: F401 - as a process that serves begins

        ana, admin = people.ana.context(), people.admin.token()
        last = f"{DETAIL}&marker={uuid_of(LIMIT)}"
        works: dict[str, Callable[[], int]] = {
            "bare SQL and JSON": lambda: bare(ana.project_id),
            "first page": _asking(people.ana.token(), DETAIL),
            "last page": _asking(people.ana.token(), last),
            "first page of all projects": _asking(admin, f"{DETAIL}&all_tenants=1"),
            "names only": _asking(people.ana.token(), DETAIL.replace("/detail", "")),
        }
        return _report(_in_turns(works, rounds))


def _asking(token: str, path: str) -> Callable[[], int]:
    from tests.api_client import ApiClient

    client = ApiClient(token, version="2.95")

    def ask() -> int:
        answer = client.get(path)
        assert answer.status_code == 200, answer.content
        return answer.content.count(b'"rel":"self"')

    return ask


def _in_turns(works: dict[str, Callable[[], int]], rounds: int) -> dict[str, tuple[float, float]]:
    """Return median seconds of each work, of wall time and of processor time."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for number in range(rounds + 2):
        for name, work in works.items():
            began, used = time.perf_counter(), time.thread_time()
            count = work()
            spent = (time.perf_counter() - began, time.thread_time() - used)
            assert count == LIMIT, f"{name}: {count} servers"
            if number >= 2:
                taken[name].append(spent)
    return {
        name: (statistics.median(clock for clock, _ in spent), statistics.median(used for _, used in spent))
        for name, spent in taken.items()
    }


def _report(found: dict[str, tuple[float, float]]) -> int:
    least = found["bare SQL and JSON"]
    print("| what | p50 | processor | p50 / bare | processor / bare |")
    print("|---|---|---|---|---|")
    for name, (clock, used) in found.items():
        print(f"| {name} | {clock * 1000:.1f} ms | {used * 1000:.1f} ms ", end="")
        print(f"| {clock / least[0]:.2f} | {used / least[1]:.2f} |")
    first, last = found["first page"], found["last page"]
    print(f"\nFirst page {first[0] * 1000:.0f} ms (bar {BAR_MILLISECONDS:.0f}), ", end="")
    print(f"{first[1] / least[1]:.2f} of bare by processor time (bar {BAR_RATIO}), ", end="")
    print(f"last / first {last[1] / first[1]:.2f} (bar {BAR_LAST}).")
    record("lists", _figures(found))
    return 0


def _figures(found: dict[str, tuple[float, float]]) -> Iterator[Figure]:
    bare, (clock, used) = found["bare SQL and JSON"][1], found["first page"]
    name, shown = "first page of 1,000", f"{clock * 1000:.0f} ms"
    limit, bar = f"{BAR_MILLISECONDS:.0f} ms", f"≤ {BAR_RATIO:g}"
    yield Figure(name, shown, limit, round(clock * 1000 / BAR_MILLISECONDS, 2), "≤ 1")
    yield Figure(name, shown, "bare SQL and JSON", round(used / bare, 2), bar)
    last = found["last page"]
    ratio = round(last[1] / used, 2)
    yield Figure("last page", f"{last[0] * 1000:.0f} ms", f"first page, {shown}", ratio, f"≤ {BAR_LAST:g}")
    for which in ("first page of all projects", "names only"):
        clock, used = found[which]
        name = which if which.startswith("first") else f"first page, {which}"
        yield Figure(name, f"{clock * 1000:.0f} ms", "bare SQL and JSON", round(used / bare, 2), bar)


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:]]
    sys.exit(main(*(numbers + [SERVERS, ROUNDS][len(numbers) :])))
