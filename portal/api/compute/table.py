"""What a row of the route table says: a path, its view, and for each method who may use it in which versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.urls import URLPattern, path

from portal.api.base import ApiView


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of a route.

    `rule` is its row in `policies.py`, without the common prefix; with `is_targeted` the view itself asks for it, as
    it has to look first whose resource it is about. Outside of `since` to `until` the method is not there: 404.
    """

    rule: str
    status: int = 200
    since: str = "2.1"
    until: str | None = None
    is_targeted: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """A path below /compute/v2.1, as Django spells it; `note` is for the documentation."""

    path: str
    view: type[ApiView]
    operations: Mapping[str, Operation]
    note: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def pattern(self) -> URLPattern:
        """The route for Django: the view checks versions and rules by the same row."""
        return path(self.path, self.view.as_view(operations=self.operations, **self.attributes))
