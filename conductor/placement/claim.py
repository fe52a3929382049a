"""What a consumer asks of a provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

INSTANCE = "INSTANCE"


@dataclass(frozen=True, slots=True)
class Claim:
    """What one consumer wants of one provider, by resource class. Several of one consumer are parts of one tree."""

    consumer_uuid: str
    provider_uuid: str
    resources: Mapping[str, int]
    project_id: str
    user_id: str
    consumer_type: str = INSTANCE
