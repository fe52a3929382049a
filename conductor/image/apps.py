"""The app of images."""

from django.apps import AppConfig


class Config(AppConfig):
    name = "conductor.image"
    label = "image"
    default_auto_field = "django.db.models.BigAutoField"
