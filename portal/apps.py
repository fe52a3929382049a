"""The app that speaks HTTP, HTML and websockets."""

import sys

from django.apps import AppConfig

UNUSED = ("django.contrib.postgres", "inflection", "pygments", "requests", "yaml")


class PortalConfig(AppConfig):
    name = "portal"
    label = "portal"

    def ready(self) -> None:
        from portal.languages import compile_catalogues

        load_rest_framework()
        compile_catalogues()


def load_rest_framework() -> None:
    """Without what it would load only because it is installed, for parts that we do not use.

    A driver of PostgreSQL, a client of HTTP and a highlighter cost each process half a second and 20 MiB; whoever needs
    one imports it.
    """
    unused = [name for name in UNUSED if name not in sys.modules]
    for name in unused:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        import rest_framework.compat  # noqa: F401
    finally:
        for name in unused:
            del sys.modules[name]
