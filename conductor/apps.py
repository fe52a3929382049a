"""The app of the conductor itself: no models, but the place where plugins are loaded and commands live."""

from django.apps import AppConfig
from django.core import checks

from conductor.plugins import check_plugins, converters, notes
from conductor.scheduler.hardware_wishes import check_aliases
from conductor.scheduler.prefilter_check import check_prefilters


class ConductorConfig(AppConfig):
    name = "conductor"
    label = "conductor"

    def ready(self) -> None:
        from conductor.rpc import key_store, keys  # need models, which are there by now
        from conductor.scheduler.extensions import in_use

        keys.use(key_store.STORE)
        notes.listen()
        converters.ask_through(in_use)
        checks.register(check_plugins)
        checks.register(check_aliases)
        checks.register(check_prefilters)
