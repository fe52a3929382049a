"""The app of networks."""

from django.apps import AppConfig


class Config(AppConfig):
    name = "conductor.network"
    label = "network"
    default_auto_field = "django.db.models.BigAutoField"
