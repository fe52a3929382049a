"""Claims of resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

INSTANCE = "INSTANCE"


@dataclass(frozen=True, slots=True)
class Claim:
    """Resources that one consumer requests of one provider, by class. Several claims of a consumer are of one tree."""

    consumer_uuid: str
    provider_uuid: str
    resources: Mapping[str, int]
    project_id: str
    user_id: str
    consumer_type: str = INSTANCE
