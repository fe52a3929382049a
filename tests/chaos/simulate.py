"""Seeded schedules of faults, each checked: `python -m tests.chaos.simulate --seed 1 --crowded 20000 --schedules 500`.

Prints one line per violation with the seed that shows it; `--seed N --schedules 1 --trace` replays one, and
`--seed N --crowded 25 --trace` a crowd of them. With `--real 200` real processes die in so many schedules, by SIGKILL;
with `--planted 1000` each bug of tests/chaos/planted.py is put into the product in turn, and one that so many crowded
schedules do not find counts as a failure. All of these may be asked for at once: they share one set-up.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import logging
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import django

from tests.waiting import Stopwatch

if TYPE_CHECKING:
    from tests.chaos.schedule import Schedule

Load = Callable[[Path, Path], None]  # of the template, for a home
World = tuple[int, int]  # its seed, and how many schedules are in it
STRUCK = ".struck.json"
SHARED_MEMORY = Path("/dev/shm")
WORKERS = os.cpu_count() or 1
END_WITH_PARENT = 1  # PR_SET_PDEATHSIG
CROWDED, ALONE, REAL = "crowded", "alone", "real"  # how a schedule is played


@dataclass(frozen=True)
class SimulationOptions:
    """The options of the command line."""

    seed: int
    crowded: int
    schedules: int
    real: int
    planted: int
    plant: str
    trace: bool
    log: bool


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of the first world; the others follow")
    parser.add_argument("--crowded", type=int, default=0, help="how many of which many share a world")
    parser.add_argument("--schedules", type=int, default=0, help="how many that have a world each")
    parser.add_argument("--real", type=int, default=0, help="how many in which real processes die and are stopped")
    parser.add_argument(
        "--planted", type=int, default=0, help="plant every bug; find each in at most so many schedules"
    )
    parser.add_argument("--plant", default="", help="put this bug into the product first")
    parser.add_argument("--trace", action="store_true", help="print what happened in each schedule")
    parser.add_argument("--log", action="store_true", help="let the product log")
    requested = SimulationOptions(**vars(parser.parse_args()))
    if not (requested.crowded or requested.schedules or requested.real or requested.planted):
        parser.error("say how many: --crowded, --schedules, --real or --planted")
    folder = Path(tempfile.mkdtemp(prefix="novella-chaos-", dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None))
    try:
        _set_up(folder / "template", is_logged=requested.log)
        codes = [
            _simulate_all(requested, folder, requested.crowded, CROWDED) if requested.crowded else 0,
            _simulate_all(requested, folder, requested.schedules, ALONE) if requested.schedules else 0,
            _simulate_all(requested, folder, requested.real, REAL) if requested.real else 0,
            _find_planted(requested, folder) if requested.planted else 0,
        ]
        return max(codes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _simulate_all(requested: SimulationOptions, folder: Path, count: int, kind: str) -> int:
    from tests.chaos.contended import SIZE

    watch = Stopwatch()
    sizes = [1] * count if kind != CROWDED else [min(SIZE, count - first) for first in range(0, count, SIZE)]
    worlds = list(enumerate(sizes, requested.seed))
    shares = [worlds[index::WORKERS] for index in range(WORKERS)]
    jobs = [partial(_simulate, worlds=share, requested=requested, kind=kind) for share in shares if share]
    outcomes = _in_children(folder, jobs, _load_files if kind == REAL else _load)
    pace = count / watch.seconds
    found = sum(outcomes)
    where = f" in {len(worlds)} crowds" if kind == CROWDED else ""
    struck = sorted(_struck(folder, f"*-{kind}").items())
    message = "".join(f", {number} {name}" for name, number in struck)
    print(f"{count} schedules{where}{message}, {found} with violations, {pace:.0f}/s", flush=True)
    return 1 if found else 0


def _struck(folder: Path, name: str) -> Counter[str]:
    return sum((Counter(json.loads(path.read_text())) for path in folder.glob(f"{name}{STRUCK}")), Counter[str]())


def _find_planted(requested: SimulationOptions, folder: Path) -> int:
    from tests.chaos.planted import PLANTED

    jobs = [partial(_find, name=name, requested=requested) for name in PLANTED]
    outcomes = _in_children(folder, jobs, _load)
    print(f"{sum(outcomes)} of {len(PLANTED)} planted bugs found", flush=True)
    return 0 if all(outcomes) else 1


def _find(home: Path, *, name: str, requested: SimulationOptions) -> int:
    from tests.chaos.contended import SIZE
    from tests.chaos.planted import PLANTED

    PLANTED[name]()
    worlds = [(requested.seed + index, SIZE) for index in range(-(-requested.planted // SIZE))]
    found = _simulate(home, worlds, requested=requested, kind=CROWDED, stop_at_first=True, prefix=f"{name}: ")
    if not found:
        print(f"{name}: NOT FOUND in {len(worlds) * SIZE} schedules", flush=True)
    return found


def _simulate(
    home: Path,
    worlds: Iterable[World],
    *,
    requested: SimulationOptions,
    kind: str,
    stop_at_first: bool = False,
    prefix: str = "",
) -> int:
    """Return how many of the schedules show a violation."""
    from tests.chaos import planted

    if requested.plant:
        planted.PLANTED[requested.plant]()
    found, struck = 0, Counter[str]()
    for count, (seed, size) in enumerate(worlds, 1):
        schedule, wrong = _play(seed, size, home / "host", kind)
        struck.update(schedule.struck)
        if requested.trace:
            print("\n".join(schedule.trace))
        after = f" (of {count * size} schedules)" if stop_at_first else ""
        for line in wrong[: 1 if stop_at_first else None]:
            print(f"{prefix}seed {seed}{after}: {line}", flush=True)
        found += bool(wrong)
        if wrong and stop_at_first:
            break
    (home.parent / f"{home.name}-{kind}{STRUCK}").write_text(json.dumps(struck))
    return found


def _play(seed: int, size: int, folder: Path, kind: str) -> tuple[Schedule, list[str]]:
    """Run one schedule. Return it with the violations that it left."""
    from tests.chaos import ledger
    from tests.chaos.contended import ContendedSchedule
    from tests.chaos.invariants import violations
    from tests.chaos.parts import clear
    from tests.chaos.schedule import Schedule

    clear(folder)
    ledger.unlocked.clear()
    crowded = kind == CROWDED
    schedule = ContendedSchedule(seed, folder, size=size) if crowded else Schedule(seed, folder, is_real=kind == REAL)
    wrong = schedule.run()
    return schedule, wrong + violations(schedule.driver.running, schedule.driver.kept, schedule.asked)


def _in_children(folder: Path, jobs: Sequence[Callable[[Path], int]], load: Load) -> list[int]:
    """Run each job in a process of its own, as many at once as there are processors; return their results."""
    outcomes: dict[int, int] = {}
    running: dict[int, int] = {}
    for index, job in enumerate(jobs):
        if len(running) == WORKERS:
            _await_one(running, outcomes)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _be_a_child(folder, index, job, load)
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


def _be_a_child(folder: Path, index: int, job: Callable[[Path], int], load: Load) -> None:
    ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
    home = folder / str(index)
    home.mkdir()
    load(folder / "template", home)
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


def _load(template: Path, home: Path) -> None:
    """Copy the template's databases into this process's memory.

    Nothing is written to a file, and Django never closes an in-memory database, so a dying conductor loses only its
    transaction.
    """
    from django.db import connections

    from tests.chaos import ledger

    for alias in ledger.EFFECTS:
        connections[alias].settings_dict["NAME"] = ":memory:"
        connections[alias].ensure_connection()
        with closing(sqlite3.connect(template / f"{alias}.sqlite3")) as source:
            source.backup(connections[alias].connection)


def _load_files(template: Path, home: Path) -> None:
    """Load the same databases as files, which several processes may open."""
    shutil.copytree(template, home, dirs_exist_ok=True)
    _point_at(home)


def _set_up(folder: Path, *, is_logged: bool) -> None:
    """Create the product's own databases, empty except for what every schedule needs; no connection stays open."""
    folder.mkdir()
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    if not is_logged:
        logging.disable(logging.CRITICAL)
    from django.db import connections

    from conductor.cell_db.models import Service
    from conductor.db.transactions import database_now
    from conductor.rpc.versions import SERVICE_VERSION
    from tests import migrated

    # All that children need, so that they need not import it each.
    from tests.chaos import contended, invariants, ledger, parts, planted  # noqa: F401

    migrated.copy_files(folder / "all")
    for alias in ledger.EFFECTS:
        (folder / "all" / Path(connections[alias].settings_dict["NAME"]).name).rename(folder / f"{alias}.sqlite3")
    shutil.rmtree(folder / "all")
    _point_at(folder)
    for alias in ledger.EFFECTS:
        with connections[alias].cursor() as sql:
            sql.execute(ledger.TABLE)
    Service.objects.using(ledger.HERE).create(
        binary="nova-compute",
        host=ledger.HOST,
        version=SERVICE_VERSION,
        last_seen_at=database_now(100_000),
        created_at=database_now(),
    )
    connections.close_all()


if __name__ == "__main__":
    sys.exit(main())
