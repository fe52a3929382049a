"""The app that speaks HTTP, HTML and websockets."""

from django.apps import AppConfig


class PortalConfig(AppConfig):
    name = "portal"
    label = "portal"

    def ready(self) -> None:
        from portal.languages import compile_catalogues

        compile_catalogues()
