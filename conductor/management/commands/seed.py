"""`novella seed`: run before the separate processes of a cloud are first started, and after each upgrade."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from conductor.management import first_start, preflight
from conductor.management.tiny_linux.builder import CannotBuild
from conductor.manual import ManualCommand


class Command(ManualCommand):
    help = "Create and upgrade every database and fill it for a new cloud. It is safe to run again."
    requires_system_checks = []
    examples = {
        "seed --tiny-linux": "Prepare the databases of a new cloud, with a small image for real hosts.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tiny-linux", action="store_true", help="also build and store the image tiny-linux")

    def handle(self, *args: Any, **options: Any) -> None:
        data_dir = settings.NOVELLA_DATA
        with preflight.beside_others(data_dir):
            try:
                tiny_linux = first_start.build_tiny_linux(data_dir) if options["tiny_linux"] else None
            except CannotBuild as reason:
                raise CommandError(f"--tiny-linux: {reason}") from None
            first_start.prepare(data_dir, tiny_linux)
        self.stdout.write(f"Novella is seeded; the first passwords are in {data_dir}/passwords.json")
