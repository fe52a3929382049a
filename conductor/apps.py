"""The Django app `conductor`: it has the management commands and checks, and no models."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core import checks

from conductor.core.scheduling.prefilters import OPTIONS
from conductor.plugins import check_plugins, converters, log
from conductor.scheduler.hardware_requests import check_aliases


class ConductorConfig(AppConfig):
    name = "conductor"
    label = "conductor"

    def ready(self) -> None:
        from conductor.rpc import key_store, keys  # need models, which are loaded by now
        from conductor.scheduler.active_plugins import in_use

        keys.use(key_store.STORE)
        log.listen()
        converters.ask_through(in_use)
        checks.register(check_plugins)
        checks.register(check_aliases)
        checks.register(check_prefilters)


def check_prefilters(**kwargs: Any) -> list[checks.CheckMessage]:
    """Check that the operator's pre-filters are known, for `novella check`."""
    hint = f"Known are {', '.join(OPTIONS)}."
    return [
        checks.Error(f"NOVELLA_PREFILTERS: there is no pre-filter {name}.", hint=hint, id="conductor.E002")
        for name in settings.NOVELLA_PREFILTERS
        if name not in OPTIONS
    ]
