"""Settings of a process of an earlier release: the first, which knew few commands."""

from __future__ import annotations

from conductor.rpc import versions

# Set before any code reads it.
versions.SERVICE_VERSION = 1

from portal.settings import *  # noqa: E402, F403

INSTALLED_APPS = [*INSTALLED_APPS, "tests.acceptance.previous_release.apps.PreviousRelease"]  # noqa: F405
