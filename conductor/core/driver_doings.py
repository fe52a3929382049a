"""What a report tells of its driver beside what the host offers, as the catalogue of plugins takes it."""

from __future__ import annotations

# The kind that drivers have among plugins.
DRIVER = "driver"
# Of one report: the lengths of so many calls, and so many notes of each source.
MOST_CALLS = 1000
