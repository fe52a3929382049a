"""The app of placement: inventories of providers, and allocations."""

from django.apps import AppConfig


class Config(AppConfig):
    name = "conductor.placement"
    label = "placement"
    default_auto_field = "django.db.models.BigAutoField"
