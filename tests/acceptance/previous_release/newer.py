"""Settings of a process of the present code with a flow that has changed."""

from __future__ import annotations

from portal.settings import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "tests.acceptance.previous_release.apps.NewerRelease"]  # noqa: F405
