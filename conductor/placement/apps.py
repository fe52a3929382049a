"""The app of placement: what hosts have and who holds it."""

from django.apps import AppConfig


class Config(AppConfig):
    name = "conductor.placement"
    label = "placement"
    default_auto_field = "django.db.models.BigAutoField"
