"""The app of the conductor: no models; it loads plugins and has the commands."""

from django.apps import AppConfig
from django.core import checks

from conductor.plugins import check_plugins, converters, log
from conductor.scheduler.hardware_requests import check_aliases
from conductor.scheduler.prefilter_check import check_prefilters


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
