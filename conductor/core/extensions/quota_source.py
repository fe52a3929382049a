"""Quota sources: who says how much a project may have, where that is not the cloud itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from conductor.core.extensions.base import Extension


class QuotaSource(Extension):
    """Says limits of projects: instances, cores, ram and the others. What it does not name stays as it is stored.

    It may only tighten what is stored: of two limits the lower counts, and −1 is none.
    """

    kind: ClassVar[str] = "quota_source"
    method: ClassVar[str] = "limits"

    def limits(self, project_id: str) -> Mapping[str, int]:
        """Limits by resource. Asked before something is taken, and kept for a minute."""
        raise NotImplementedError
