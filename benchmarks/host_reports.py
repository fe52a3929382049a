"""Processor time of a conductor for the reports of hosts: the first, an unchanged one, and a full comparison.

    python benchmarks/host_reports.py [--hosts 1000]

Hosts report as those of `novella up` do, in sets, into SQLite files; `signed` reports come one by one in envelopes, as
from agents that are processes of their own. The limit is an update of one row in a batch of as many, in the same run.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_flow import all_databases
from benchmarks.results import Figure, record

BAR_RATIO = 6
CELL = "cell1"
SET = 256
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, default=1000)
    count = parser.parse_args().hosts
    with all_databases():
        from conductor.api_db.models import CellMapping
        from conductor.rpc import identities, keys
        from conductor.rpc.identities import HostIdentity
        from conductor.rpc.key_store import STORE
        from conductor.services.hosts import keys as host_keys

        CellMapping.objects.get_or_create(name=CELL)
        keys.use(STORE)
        made = [identities.new(f"host-{number}", CELL, STORE.conductor_keys()) for number in range(count)]
        host_keys.adopt(made)
        for credentials in made:
            keys.serve_as(HostIdentity(Path("/nowhere"), credentials))
        measure([credentials.host for credentials in made])


def measure(hosts: Sequence[str]) -> None:
    from conductor.actors import conductor as actors
    from conductor.actors import report_intake
    from conductor.services.fleet import report_sets, reports

    number, now = 0, time.time()
    reports.clock = lambda: now

    def messages() -> list[Any]:
        nonlocal number
        number += 1
        return [report(host, number) for host in hosts]

    def in_sets(found: Sequence[Any]) -> None:
        intake = report_intake.ReportIntake()
        for start in range(0, len(found), SET):
            intake.put_own([(CELL, message) for message in found[start : start + SET]])
            while intake.has_reports:
                intake.record_waiting()
                time.sleep(0.001)

    show("first report", hosts, messages(), in_sets)
    time.sleep(2.0)  # the last first reports are being recorded on threads
    limits, unchanged = [], []
    for _ in range(ROUNDS):
        limits.append(show("limit: one row in a batch", hosts, hosts, update_each))
        unchanged.append(show("unchanged report", hosts, messages(), in_sets))
    signed = [seal(message) for message in messages()]
    report_intake.INTAKE.start()
    alone = show("unchanged report, signed", hosts, signed, lambda wires: receive(actors.conductor_message, wires))
    report_intake.INTAKE.stop()
    now += reports.FULL_LOOK_SECONDS
    due: list[Any] = []
    for start in range(0, len(hosts), SET):
        due += report_sets.record_all(CELL, messages()[start : start + SET]).due
    assert len(due) == len(hosts), len(due)
    compared = show(
        "full comparison",
        hosts,
        due,
        lambda found: [report_sets.compare_all(CELL, found[at : at + SET]) for at in range(0, len(found), SET)],
    )
    limit, in_a_set = statistics.median(limits), statistics.median(unchanged)
    found = (("unchanged, in a set", in_a_set), ("unchanged, signed and alone", alone), ("full comparison", compared))
    bound = f"one row in a batch, {limit:.3f} ms"
    record(
        "host_reports",
        [
            Figure(f"processor time of a report, {what}", f"{each:.2f} ms", bound, round(each / limit, 1), bar)
            for (what, each), bar in zip(found, (f"≤ {BAR_RATIO}", "", ""), strict=True)
        ],
    )
    print(f"unchanged report / limit: {in_a_set / limit:.1f} (bar {BAR_RATIO})")


def update_each(hosts: Sequence[str]) -> None:
    """Update one row for each host, by one batch in one transaction."""
    from django.db import connections

    from conductor.cell_db.models import Service
    from conductor.db.rows import Rows
    from conductor.db.transactions import write_tx

    with write_tx(CELL):
        Rows(Service, "host").update_each(connections[CELL], {host: {"version": 1} for host in hosts})


def report(host: str, number: int) -> Any:
    from compute_drivers.fake.driver import FakeDriver
    from conductor.rpc.messages import HostReported
    from conductor.rpc.versions import SERVICE_VERSION

    if host not in _reports:
        _reports[host] = FakeDriver(host, {}, lambda _: None).report().to_json()  # type: ignore[arg-type, return-value]
    return HostReported(
        host=host,
        cell=CELL,
        driver="fake",
        is_simulated=True,
        service_version=SERVICE_VERSION,
        report_number=number,
        availability_zone="az-1",
        report=_reports[host],
        guests={},
    )


def receive(actor: Callable[[Any], Any], wires: Sequence[Any]) -> None:
    """Have a conductor's actor take the messages of agents, and wait until they are recorded."""
    from conductor.actors.report_intake import INTAKE, STOP_SECONDS

    for wire in wires:
        actor(wire)
    deadline = time.monotonic() + STOP_SECONDS
    while INTAKE.has_reports and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)  # the last set


_reports: dict[str, Any] = {}


def seal(message: Any) -> dict[str, Any]:
    from conductor.rpc import keys
    from conductor.rpc.broker import CONDUCTOR_QUEUE
    from conductor.rpc.codec import encode

    sentence = {"cell": CELL, **encode(message)}
    return keys.signer_of_host(message.host).seal(sentence["message"], f"{CONDUCTOR_QUEUE}.{CELL}", sentence)


def show(what: str, hosts: Sequence[str], found: Sequence[Any], work: Callable[[Sequence[Any]], Any]) -> float:
    began = time.process_time()
    work(found)
    each = (time.process_time() - began) * 1000 / len(hosts)
    print(f"{what}: {each:.3f} ms of the processor")
    return each


if __name__ == "__main__":
    main()
