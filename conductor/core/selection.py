"""A chosen host, and the next best ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from conductor.core.plain_json import plain


@dataclass(frozen=True, slots=True)
class Selection:
    """One host that may take the instance: where it is and what to claim there, of its room and of its inside.

    `resources` are all of the room together. Where several providers give it, `by_provider` says which gives what.
    """

    host: str
    node: str
    cell: str
    provider_uuid: str
    resources: Mapping[str, int]
    availability_zone: str = ""
    hardware: Mapping[str, Any] = field(default_factory=dict)  # hardware.wire says what stands in it
    by_provider: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, dict[str, int]]:
        """What to claim of each provider."""
        given = self.by_provider or {self.provider_uuid: self.resources}
        return {provider: dict(amounts) for provider, amounts in given.items()}

    def to_json(self) -> dict[str, Any]:
        return plain(self)  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Selection:
        return cls(**data)
