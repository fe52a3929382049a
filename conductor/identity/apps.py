"""The app of users, projects, roles and tokens."""

from django.apps import AppConfig


class Config(AppConfig):
    name = "conductor.identity"
    label = "identity"
    default_auto_field = "django.db.models.BigAutoField"
