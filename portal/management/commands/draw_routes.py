"""manage.py draw_routes: write the page that lists every route of the Compute API."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from portal.api.compute import reference


class Command(BaseCommand):
    help = "Write docs/api/compute-routes.md from the table that the Compute API goes by."

    def handle(self, *args: Any, **options: Any) -> None:
        path = settings.BASE_DIR / reference.PAGE
        path.write_text(reference.page())
        self.stdout.write(f"Written: {reference.PAGE}")
