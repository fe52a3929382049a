"""The app of the conductor itself: no models, but the place where plugins are loaded and commands live."""

from django.apps import AppConfig
from django.core import checks

from conductor.plugins import check_plugins
from conductor.scheduler.hardware_wishes import check_aliases
from conductor.scheduler.prefilter_check import check_prefilters


class ConductorConfig(AppConfig):
    name = "conductor"
    label = "conductor"

    def ready(self) -> None:
        checks.register(check_plugins)
        checks.register(check_aliases)
        checks.register(check_prefilters)
