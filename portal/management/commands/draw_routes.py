"""manage.py draw_routes: write the pages that list every route of the Compute API and the members of its answers."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from conductor.manual import ManualCommand
from portal.api.compute import fields, reference


class Command(ManualCommand):
    help = "Write the reference pages of the Compute API from its tables."

    def handle(self, *args: Any, **options: Any) -> None:
        for page, text in ((reference.PAGE, reference.page()), (fields.PAGE, fields.page())):
            (settings.BASE_DIR / page).write_text(text)
            self.stdout.write(f"Written: {page}")
