"""A chosen host, and the next best ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Selection:
    """One host that may take the instance: where it is and what to claim there, of its room and of its inside."""

    host: str
    node: str
    cell: str
    provider_uuid: str
    resources: Mapping[str, int]
    availability_zone: str = ""
    hardware: Mapping[str, Any] = field(default_factory=dict)  # hardware.wire says what stands in it

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Selection:
        return cls(**data)
