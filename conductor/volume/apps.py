"""The app of volumes."""

from django.apps import AppConfig


class Config(AppConfig):
    name = "conductor.volume"
    label = "volume"
    default_auto_field = "django.db.models.BigAutoField"
