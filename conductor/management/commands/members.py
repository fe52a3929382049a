"""`novella members`: the conductors that are alive, by their groups."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from conductor.actors import liveness
from conductor.core.errors import Invalid, Unavailable
from conductor.manual import ManualCommand


class Command(ManualCommand):
    help = (
        "List the conductors that are alive. They are known by locked files, by sessions on the databases and by "
        "the group service, if any."
    )
    requires_system_checks = []
    examples = {
        "members --json": "Print the live conductors for a program.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            found = liveness.living()
        except (Invalid, Unavailable) as error:
            raise CommandError(error.message) from None
        if options["json"]:
            self.stdout.write(json.dumps([{"name": one.name, "worker": one.worker} for one in found], indent=2))
            return
        width = max([len("name"), *(len(one.name) for one in found)])
        self.stdout.write(f"{'name':<{width}}  worker")
        for one in found:
            self.stdout.write(f"{one.name:<{width}}  {one.worker}")
