"""Bugs to plant into the product, one at a time: the campaign must find each of them.

Each is a bug that engines of this kind have had, or that a hasty change could cause in this one.
"""

from __future__ import annotations

from tests.chaos import planted_in_messages, planted_in_runs
from tests.chaos.planting import PLANTED

__all__ = ["PLANTED", "planted_in_messages", "planted_in_runs"]
