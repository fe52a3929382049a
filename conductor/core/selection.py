"""A chosen host, and the next best ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from conductor.core.plain_json import plain


@dataclass(frozen=True, slots=True)
class Selection:
    """One host that may take the instance: its location, and the resources and hardware to claim there.

    Attributes:
        resources: The amounts by resource class, in total.
        by_provider: The amounts by provider, where several providers give them.
    """

    host: str
    node: str
    cell: str
    provider_uuid: str
    resources: Mapping[str, int]
    availability_zone: str = ""
    hardware: Mapping[str, Any] = field(default_factory=dict)  # format: see hardware.wire
    by_provider: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, dict[str, int]]:
        """Return the amounts to claim of each provider."""
        given = self.by_provider or {self.provider_uuid: self.resources}
        return {provider: dict(amounts) for provider, amounts in given.items()}

    def to_json(self) -> dict[str, Any]:
        return plain(self)  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Selection:
        return cls(**data)
