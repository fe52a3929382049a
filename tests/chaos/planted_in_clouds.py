"""Planted bugs of a whole cloud: each process plants the one that PLANTED_BUG names, once its apps are loaded.

`tests/chaos/planted_settings.py` adds this app to the product's. `python -m tests.chaos.planted_in_clouds` plays each
bug at the places that must show it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

from django.apps import AppConfig

from tests.chaos.planting import replaced

VARIABLE = "PLANTED_BUG"


def variables(name: str) -> dict[str, str]:
    """Return the variables of processes that have this bug."""
    return {"DJANGO_SETTINGS_MODULE": "tests.chaos.planted_settings", VARIABLE: name} if name else {}


class PlantedBug(AppConfig):
    """Plants the bug of this process."""

    name = "tests.chaos.planted_in_clouds"
    label = "planted_bug"
    path = str(Path(__file__).parent)

    def ready(self) -> None:
        PLANTED_IN_CLOUDS[os.environ[VARIABLE]]()


def a_deleted_server_takes_its_snapshots_from_an_image() -> None:
    """An image of volumes can be given up after it is active, and its snapshots are then removed without it."""
    from conductor.image.models import Image
    from conductor.volume import image_snapshots, store
    from conductor.volume.models import Snapshot
    from conductor.workflows.flows.server_images import CREATE_IMAGE_OF_VOLUMES, GiveSnapshotsUp

    object.__setattr__(CREATE_IMAGE_OF_VOLUMES, "cancellable_until", "")

    def make(execute: Any) -> Any:
        def in_parts(self: GiveSnapshotsUp, work: Any) -> Any:
            image_id = work.inputs["image_id"]
            if not Image.objects.filter(uuid=image_id, status="active").exists():
                return execute(self, work)
            image_snapshots.release([image_id])
            for entry in work.inputs["snapshots"]:
                Snapshot.objects.filter(uuid=entry["snapshot_id"]).delete()
                store.remove_snapshot(entry["snapshot_id"])
            return {}

        return in_parts

    replaced(GiveSnapshotsUp, "execute", make)


def a_repetition_has_an_id_of_its_own() -> None:
    """A launch that is repeated after its process died is answered with an id that no workflow has."""
    from portal.api import idempotency

    replaced(idempotency, "_take_id", lambda _: lambda request, name: None)


@dataclass(frozen=True)
class Finding:
    """The places at which a death shows a planted bug, as a regular expression, and words of what is then wrong."""

    match: str
    words: str


FINDINGS: dict[Callable[[], None], Finding] = {
    a_deleted_server_takes_its_snapshots_from_an_image: Finding(
        r"^create_image_of_volumes\.do\.ActivateListImage\.effect \(its", "names snapshot"
    ),
    a_repetition_has_an_id_of_its_own: Finding(r"^accept\.create\.committed", "the server has no action of it"),
}
PLANTED_IN_CLOUDS = {plant.__name__: plant for plant in FINDINGS}


def main() -> int:
    """Play the places of each planted bug in a cloud that has it; 1 if one is not found."""
    missed = 0
    for plant, finding in FINDINGS.items():
        words = ["--mode", "every-point", "--schedulers", "0", "--match", finding.match, "--plant", plant.__name__]
        done = subprocess.run([sys.executable, "-m", "tests.chaos", *words], stdout=PIPE, text=True, check=False)
        is_found = any(line.startswith("WRONG: ") and finding.words in line for line in done.stdout.splitlines())
        missed += not is_found
        print(f"{plant.__name__}: {'found' if is_found else f'NOT FOUND: {done.stdout}'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
