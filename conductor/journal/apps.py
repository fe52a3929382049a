"""The app of the journal, which is in every database."""

from django.apps import AppConfig


class Config(AppConfig):
    name = "conductor.journal"
    label = "journal"
    default_auto_field = "django.db.models.BigAutoField"
