"""What may be ordered of a live migration that does not end by itself: one row per kind of order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from conductor.core.errors import Invalid

DOWNTIME, THROTTLE, POST_COPY = "downtime", "throttle", "post-copy"


@dataclass(frozen=True)
class Steering:
    """A kind of order, and the capability of the drivers that can carry it out.

    `field` names its amount and `unit` follows that; it is from `least` to `most`. One without a field takes none.
    """

    kind: str
    capability: str
    field: str = ""
    unit: str = ""
    least: int = 0
    most: int = 0


STEERINGS: Mapping[str, Steering] = {
    one.kind: one
    for one in (
        Steering(DOWNTIME, "live_downtime", "milliseconds", "ms", least=1, most=60_000),
        Steering(THROTTLE, "live_throttle", "percent", "%", least=1, most=99),
        Steering(POST_COPY, "live_post_copy"),
    )
}


def checked(kind: str, amount: object) -> int:
    """The amount of an order as a number, 0 where it takes none; text of digits will do. Raises Invalid."""
    steering = STEERINGS[kind]
    if not steering.field:
        return 0
    text = "" if isinstance(amount, bool) else str(amount).strip()
    is_whole = text.isascii() and text.isdigit() and len(text) <= len(str(steering.most))
    if not is_whole or not steering.least <= int(text) <= steering.most:
        raise Invalid(f"It must be a whole number from {steering.least} to {steering.most}.", field=steering.field)
    return int(text)
