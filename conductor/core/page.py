"""The value that lists return: a page of items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list. `missing_cells` maps a cell that is down to the reason."""

    items: list[T]
    has_more: bool = False
    missing_cells: Mapping[str, str] = field(default_factory=dict)
