"""The app for HTTP, HTML and WebSockets."""

from django.apps import AppConfig


class PortalConfig(AppConfig):
    name = "portal"
    label = "portal"

    def ready(self) -> None:
        from portal.languages import compile_catalogues

        compile_catalogues()
