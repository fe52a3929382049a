"""Every version of the volume API that is served, oldest first; the last one is the maximum."""

from __future__ import annotations

from portal.api.microversions import VersionTable

VERSIONS = VersionTable("volume", history=(("3.0", "The first."),))
