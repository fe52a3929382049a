"""Planting a bug: replaces the product's behaviour at one place, until the process ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Bug = Callable[[], None]
PLANTED: dict[str, Bug] = {}


def bug(plant: Bug) -> Bug:
    PLANTED[plant.__name__] = plant
    return plant


def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    setattr(owner, name, make(getattr(owner, name)))
