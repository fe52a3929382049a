"""System check of the operator's pre-filters."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core import checks

from conductor.core.scheduling.prefilters import OPTIONS

SETTING = "NOVELLA_PREFILTERS"


def check_prefilters(**kwargs: Any) -> list[checks.CheckMessage]:
    """Check that the operator's pre-filters are known, for `novella check`."""
    hint = f"Known are {', '.join(OPTIONS)}."
    return [
        checks.Error(f"{SETTING}: there is no pre-filter {name}.", hint=hint, id="conductor.E002")
        for name in settings.NOVELLA_PREFILTERS
        if name not in OPTIONS
    ]
