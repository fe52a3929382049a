"""The app of the conductor itself: no models, but the place where plugins are loaded and commands live."""

from django.apps import AppConfig


class ConductorConfig(AppConfig):
    name = "conductor"
    label = "conductor"
