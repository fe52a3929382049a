"""Bugs to plant into the product, one at a time: a campaign that does not find them proves nothing.

Each is one that engines of this kind have had, or that a hurried hand could make in this one.
"""

from __future__ import annotations

from tests.chaos import planted_in_messages, planted_in_runs
from tests.chaos.planting import PLANTED

__all__ = ["PLANTED", "planted_in_messages", "planted_in_runs"]
