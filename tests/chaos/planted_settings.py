"""The product's settings, with an app that plants a bug."""

from portal.settings import *  # noqa: F403
from portal.settings import INSTALLED_APPS as _PRODUCT

INSTALLED_APPS = [*_PRODUCT, "tests.chaos.planted_in_clouds.PlantedBug"]
