"""`manage.py draw_flows`: the sequence diagrams of docs/reference/workflows.md, from the flows' code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from conductor.manual import ManualCommand
from conductor.workflows.catalog import FLOWS
from conductor.workflows.diagrams import drawn_into

PAGE = "docs/reference/workflows.md"


class Command(ManualCommand):
    help = "Draw the sequence diagram of every flow into the documentation."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        page = Path(settings.BASE_DIR) / PAGE
        try:
            drawn = drawn_into(page.read_text(), FLOWS)
        except KeyError as error:
            raise CommandError(f"{PAGE} has no section '## {error.args[0]}': write one, then draw again.") from None
        if drawn == page.read_text():
            self.stdout.write(f"{PAGE} shows the flows as they are.")
            return
        page.write_text(drawn)
        self.stdout.write(f"{PAGE} was drawn anew.")
