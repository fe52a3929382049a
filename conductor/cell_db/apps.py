"""The app of cells' databases: instances, services and nodes."""

from django.apps import AppConfig


class Config(AppConfig):
    name = "conductor.cell_db"
    label = "cell_db"
    default_auto_field = "django.db.models.BigAutoField"
