"""Time until a new scheduler has loaded all hosts, and the memory that they take.

    python benchmarks/load_hosts.py [--hosts 100000]

Hosts are rows in the databases of one cell and of placement, as agents report them, on SQLite files. Measured are the
first snapshot, which reads all of them, one without changes, and one after a claim on one host.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_flow import all_databases

BAR_SECONDS, BAR_MB = 3.0, 300.0
CELL = "cell1"
PART = 10_000
ROOM = {"VCPU": 64, "MEMORY_MB": 262_144, "DISK_GB": 4000}
REPORT = {
    "supported_instances": [["x86_64", "qemu", "hvm"], ["x86_64", "kvm", "hvm"]],
    "capabilities": {"actions": ["migrate", "live_migrate"]},
    "cpu_info": {"arch": "x86_64", "vendor": "Intel", "topology": {"cores": 32, "sockets": 2, "threads": 2}},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, default=100_000)
    count = parser.parse_args().hosts
    with all_databases():
        fill(count)
        measure(count)


def fill(count: int) -> None:
    from django.utils import timezone

    from conductor.api_db.models import CellMapping
    from conductor.cell_db.models import ComputeNode, Service
    from conductor.placement.changes import COUNTER
    from conductor.placement.models import ChangeCounter, ProviderInventory, ResourceProvider

    CellMapping.objects.get_or_create(name=CELL)
    now = timezone.now() + timedelta(hours=1)  # none becomes unresponsive during the run
    hosts = [(f"host-{index}", UUID(int=index + 1)) for index in range(count)]
    facts = {"driver": "libvirt", "hypervisor_type": "QEMU", "hypervisor_version": 8_002_000, "report": REPORT}
    service = Service(binary="nova-compute", last_seen_at=now, created_at=now)
    write(service, CELL, ({"host": host, "uuid": uuid} for host, uuid in hosts))
    node = ComputeNode(created_at=now, updated_at=now, **facts)
    write(node, CELL, ({"host": host, "node": host, "uuid": uuid} for host, uuid in hosts))
    ChangeCounter.objects.update_or_create(pk=COUNTER, defaults={"number": 1})  # as if agents had reported
    write(ResourceProvider(change_number=1), "default", ({"name": host, "uuid": uuid} for host, uuid in hosts))
    numbers = ResourceProvider.objects.order_by("pk").values_list("pk", flat=True)
    kinds = [{"resource_class": kind, "total": of} for kind, of in ROOM.items()]
    write(ProviderInventory(), "default", ({"provider_id": pk, **kind} for pk in numbers for kind in kinds))


def write(like: Any, alias: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write copies of this row with some other fields: a model instance for each would take minutes."""
    from django.db import connections

    from conductor.db.dialect import run_many
    from conductor.db.transactions import write_tx

    connection = connections[alias]
    fields = [field for field in like._meta.concrete_fields if not field.primary_key]
    same = {field.attname: field.get_db_prep_save(field.pre_save(like, True), connection) for field in fields}
    prepare = {field.attname: field.get_db_prep_save for field in fields}
    names = ", ".join(connection.ops.quote_name(field.column) for field in fields)
    insert = f"INSERT INTO {like._meta.db_table} ({names}) VALUES ({', '.join(['%s'] * len(fields))})"
    found = ({**same, **{name: prepare[name](value, connection) for name, value in row.items()}} for row in rows)
    while part := list(islice(found, PART)):
        with write_tx(alias):
            run_many(connection, insert, [tuple(row.values()) for row in part])


def measure(count: int) -> None:
    from conductor.placement.allocations import Claim, claim_many
    from conductor.scheduler.host_manager import HostManager

    hosts = HostManager()
    before = resident_mb()
    took, spent = timed(lambda: check(hosts, count))
    memory = resident_mb() - before
    again, _ = timed(lambda: check(hosts, count))
    claim_many([Claim(str(UUID(int=2**64)), str(UUID(int=1)), {"VCPU": 1}, "shop", "ana")])
    after, _ = timed(lambda: check(hosts, count))
    print(f"{count:,} hosts: {took:.2f} s (bar {BAR_SECONDS:.0f}), {spent:.2f} s of the processor,", end=" ")
    print(f"{memory:.0f} MB (bar {BAR_MB:.0f}); again {again * 1000:.1f} ms, after a claim {after * 1000:.1f} ms")


def check(hosts: Any, count: int) -> None:
    assert len(hosts.snapshot().table) == count


def timed(work: Callable[[], None]) -> tuple[float, float]:
    began, spent = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - spent


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


if __name__ == "__main__":
    main()
