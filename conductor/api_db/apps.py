"""The app of the API database: global tables."""

from django.apps import AppConfig


class Config(AppConfig):
    name = "conductor.api_db"
    label = "api_db"
    default_auto_field = "django.db.models.BigAutoField"
