"""Commands to a live migration that does not end by itself: one row per kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from conductor.core.errors import Invalid
from conductor.core.messages import message

DOWNTIME, THROTTLE, POST_COPY = "downtime", "throttle", "post-copy"


@dataclass(frozen=True)
class Steering:
    """A kind of command, and the driver capability that it needs.

    Attributes:
        field: The name of the amount, which is from `least` to `most`. Empty for a command without an amount.
        unit: The unit that pages show after the amount.
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
    """Return a command's amount as a number, 0 for a command without one. A text of digits is accepted. Raises
    Invalid.
    """
    steering = STEERINGS[kind]
    if not steering.field:
        return 0
    text = "" if isinstance(amount, bool) else str(amount).strip()
    is_whole = text.isascii() and text.isdigit() and len(text) <= len(str(steering.most))
    if not is_whole or not steering.least <= int(text) <= steering.most:
        raise Invalid(message("invalid.whole_range", least=steering.least, most=steering.most), field=steering.field)
    return int(text)
