"""Quota sources: limits of projects from a system outside the cloud."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from conductor.core.extensions.base import Extension


class QuotaSource(Extension):
    """Gives limits of projects: instances, cores, ram and the others. Others keep their stored limit.

    It may only tighten the stored limits: the lower of the two counts, and −1 means no limit.
    """

    kind: ClassVar[str] = "quota_source"
    method: ClassVar[str] = "limits"

    def limits(self, project_id: str) -> Mapping[str, int]:
        """Return limits by resource. Called before resources are taken; the result is kept for a minute."""
        raise NotImplementedError
