"""Rows of the Compute API's route table: a path, its view, and the policy rule and versions of each method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.urls import URLPattern, path

from portal.api.base import ApiView


@dataclass(frozen=True, slots=True)
class ComputeOperation:
    """One method of a route.

    `rule` is its row in `policies.py`, without the common prefix. With `is_targeted` the view checks the rule itself,
    because it must first look up the resource. Outside of `since` to `until` the method answers 404.
    """

    rule: str
    status: int = 200
    since: str = "2.1"
    until: str | None = None
    is_targeted: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """A path below /compute/v2.1 in Django's syntax; `note` is for the documentation."""

    path: str
    view: type[ApiView]
    operations: Mapping[str, ComputeOperation]
    note: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def pattern(self) -> URLPattern:
        """Return the Django route. The view checks versions and rules by the same row."""
        return path(self.path, self.view.as_view(operations=self.operations, **self.attributes))
