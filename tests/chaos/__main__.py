"""`make chaos`: `python -m tests.chaos --mode random --seed 7 --actions 300 --kills 30`, or `--mode every-point`.

A failure prints the seed and the command that shows it again, and keeps logs and databases.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import django

from tests.chaos import planted_in_clouds, points, scenes
from tests.chaos.campaign import SCHEDULERS, Campaign, at_random
from tests.waiting import Stopwatch

BROKERS = ("rabbitmq", "redis")
RANDOM = ("actions", "kills", "server_kills")  # numbers of that mode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=("random", "every-point"), default="random")
    parser.add_argument("--seed", type=int, default=int(datetime.now(UTC).timestamp()))
    parser.add_argument("--actions", type=int, default=300, help="random: how many in all")
    parser.add_argument("--kills", type=int, default=30, help="random: how often the adversary strikes")
    parser.add_argument("--server-kills", type=int, default=5, help="random: how often PostgreSQL or the broker dies")
    parser.add_argument("--broker", choices=BROKERS, default=BROKERS[0], help=f"default: {BROKERS[0]}")
    parser.add_argument(
        "--schedulers", type=int, default=SCHEDULERS, help=f"0: conductors select hosts (default: {SCHEDULERS})"
    )
    parser.add_argument("--match", default="", help="every-point: only places that this regular expression is found in")
    parser.add_argument("--sample", type=int, default=0, help="every-point: so many of the places, chosen by the seed")
    parser.add_argument("--plant", default="", help="every-point: put this bug of a whole cloud into the product first")
    parser.add_argument("--folder", type=Path, help="where logs and databases go; kept")
    requested = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()  # only to read the catalog of flows
    folder = requested.folder or Path(tempfile.mkdtemp(prefix="novella-chaos-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # with all that was started
    report = _Teller()
    with Campaign(
        folder,
        requested.seed,
        broker=requested.broker,
        schedulers=requested.schedulers,
        **_variables(requested.mode, folder),
        **planted_in_clouds.variables(requested.plant),
    ) as campaign:
        if requested.mode == "random":
            wrong = at_random(campaign, report=report, **{name: getattr(requested, name) for name in RANDOM})
        else:
            is_called = bool(requested.schedulers)
            found = points.places(requested.match, requested.sample, requested.seed, with_schedulers=is_called)
            wrong = points.walk(campaign, found, report)
    for line in wrong:
        print(f"WRONG: {line}", flush=True)
    if wrong:
        print(f"Seed {requested.seed}; logs and databases are in {folder}.")
        print(f"Again: python -m tests.chaos {_again(requested)}")
        return 1
    print("clean", flush=True)
    if requested.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _variables(mode: str, folder: Path) -> dict[str, str]:
    if mode == "random":
        return {}
    return {"message_faults": "", "NOVELLA_CRASH_AT": f"@{folder / points.ARMED}", **scenes.VARIABLES}


def _again(requested: argparse.Namespace) -> str:
    words = [
        f"--mode {requested.mode}",
        f"--seed {requested.seed}",
        f"--broker {requested.broker}",
        f"--schedulers {requested.schedulers}",
    ]
    if requested.mode == "random":
        words += [f"--{name.replace('_', '-')} {getattr(requested, name)}" for name in RANDOM]
        return " ".join(words)
    words += [f"--match '{requested.match}'"] if requested.match else []
    words += [f"--plant {requested.plant}"] if requested.plant else []
    return " ".join([*words, f"--sample {requested.sample}"])


class _Teller:
    """Says where the campaign is, with the time that it took so far."""

    def __init__(self) -> None:
        self._watch = Stopwatch()

    def __call__(self, line: str) -> None:
        print(f"[{self._watch.seconds:6.1f}] {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
