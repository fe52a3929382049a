"""Seeded schedules of faults, each checked: `python -m tests.chaos.simulate --seed 1 --schedules 2000`.

Prints one line per violation with the seed that shows it; `--seed N --schedules 1 --trace` replays one. With
`--planted` it puts each bug of tests/chaos/planted.py into the product in turn, and fails when one is not found.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import django

SHARED_MEMORY = Path("/dev/shm")
WORKERS = os.cpu_count() or 1


@dataclass(frozen=True)
class Asked:
    """What the command line asks for."""

    seed: int
    schedules: int
    plant: str
    planted: bool
    trace: bool
    log: bool


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule; the others follow")
    parser.add_argument("--schedules", type=int, default=1000, help="how many; of each planted bug at most so many")
    parser.add_argument("--plant", default="", help="put this bug into the product first")
    parser.add_argument("--planted", action="store_true", help="plant every bug in turn, and demand that it is found")
    parser.add_argument("--trace", action="store_true", help="print what happened in each schedule")
    parser.add_argument("--log", action="store_true", help="let the product log")
    asked = Asked(**vars(parser.parse_args()))
    folder = Path(tempfile.mkdtemp(prefix="novella-chaos-", dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None))
    try:
        _set_up(folder / "template", is_logged=asked.log)
        return _find_planted(asked, folder) if asked.planted else _simulate_all(asked, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _simulate_all(asked: Asked, folder: Path) -> int:
    began = time.monotonic()
    shares = [range(asked.seed + index, asked.seed + asked.schedules, WORKERS) for index in range(WORKERS)]
    outcomes = _in_children(
        folder, [lambda home, seeds=seeds: _simulate(home, seeds, asked=asked) for seeds in shares if seeds]
    )
    pace = asked.schedules / (time.monotonic() - began)
    found = sum(outcomes)
    print(f"{asked.schedules} schedules, {found} with violations, {pace:.0f}/s", flush=True)
    return 1 if found else 0


def _find_planted(asked: Asked, folder: Path) -> int:
    from tests.chaos.planted import PLANTED

    seeds = range(asked.seed, asked.seed + asked.schedules)

    def look_for(home: Path, name: str) -> int:
        PLANTED[name]()
        found = _simulate(home, seeds, asked=asked, stop_at_first=True, prefix=f"{name}: ")
        if not found:
            print(f"{name}: NOT FOUND in {len(seeds)} schedules", flush=True)
        return found

    outcomes = _in_children(folder, [lambda home, name=name: look_for(home, name) for name in PLANTED])
    print(f"{sum(outcomes)} of {len(PLANTED)} planted bugs found", flush=True)
    return 0 if all(outcomes) else 1


def _simulate(home: Path, seeds: Iterable[int], *, asked: Asked, stop_at_first: bool = False, prefix: str = "") -> int:
    """How many of the schedules show a violation."""
    from tests.chaos import ledger, planted
    from tests.chaos.invariants import violations
    from tests.chaos.schedule import Schedule, clear

    if asked.plant:
        planted.PLANTED[asked.plant]()
    found = 0
    for seed in seeds:
        clear(home / "host")
        ledger.unlocked.clear()
        schedule = Schedule(seed, home / "host")
        wrong = schedule.run()
        wrong = wrong + violations(set(schedule.driver.running), schedule.asked)
        if asked.trace:
            print("\n".join(schedule.trace))
        for line in wrong[: 1 if stop_at_first else None]:
            print(f"{prefix}seed {seed}: {line}", flush=True)
        found += bool(wrong)
        if wrong and stop_at_first:
            break
    return found


def _in_children(folder: Path, jobs: list[Callable[[Path], int]]) -> list[int]:
    """Each job in a process of its own, as many at once as there are processors; what they return."""
    outcomes: dict[int, int] = {}
    running: dict[int, int] = {}
    for index, job in enumerate(jobs):
        if len(running) == WORKERS:
            _await_one(running, outcomes)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _be_a_child(folder, index, job)
        running[pid] = index
    while running:
        _await_one(running, outcomes)
    return [outcomes[index] for index in range(len(jobs))]


def _await_one(running: dict[int, int], outcomes: dict[int, int]) -> None:
    pid, status = os.wait()
    code = os.waitstatus_to_exitcode(status)
    if not 0 <= code < BROKEN:
        raise SystemExit(f"A simulation ended with {code}.")
    outcomes[running.pop(pid)] = code


BROKEN = 120


def _be_a_child(folder: Path, index: int, job: Callable[[Path], int]) -> None:
    home = folder / str(index)
    home.mkdir()
    _load(folder / "template")
    gc.freeze()  # what is there now stays: the collector need not look at it again and again
    try:
        code = min(job(home), BROKEN - 1)
    except BaseException:
        logging.disable(logging.NOTSET)
        logging.getLogger(__name__).exception("the simulation broke")
        code = BROKEN
    shutil.rmtree(home, ignore_errors=True)
    sys.stdout.flush()
    os._exit(code)


def _point_at(folder: Path) -> None:
    from django.db import connections

    for alias in connections:
        connections[alias].settings_dict["NAME"] = str(folder / f"{alias}.sqlite3")


def _load(template: Path) -> None:
    """The databases of the schedules as the template has them, in this process's memory.

    Nothing is written to a file, and Django closes no database that lives in memory: who dies loses his transaction.
    """
    from django.db import connections

    from tests.chaos import ledger

    for alias in ledger.EFFECTS:
        connections[alias].settings_dict["NAME"] = ":memory:"
        connections[alias].ensure_connection()
        with closing(sqlite3.connect(template / f"{alias}.sqlite3")) as source:
            source.backup(connections[alias].connection)


def _set_up(folder: Path, *, is_logged: bool) -> None:
    """The product's own databases, empty, with what every schedule finds there; no connection stays open."""
    folder.mkdir()
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    if not is_logged:
        logging.disable(logging.CRITICAL)
    from django.db import connections

    from conductor.cell_db.models import Service
    from conductor.management.databases import migrate_all
    from conductor.transactions import database_now
    from tests.chaos import ledger

    _point_at(folder)
    migrate_all()
    for alias in ledger.EFFECTS:
        with connections[alias].cursor() as sql:
            sql.execute(ledger.TABLE)
    Service.objects.using(ledger.HERE).create(
        binary="nova-compute", host=ledger.HOST, last_seen_at=database_now(100_000), created_at=database_now()
    )
    connections.close_all()


if __name__ == "__main__":
    sys.exit(main())
