"""Counts refused messages, and bounds what is stored and logged about them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conductor.rpc.envelope import Refused

EVERY_SECONDS = 60.0  # between two reports
MOST_ROWS = 20  # per report; the rest is summed in one row
LONGEST_TEXT = 128
BEYOND = "…"


@dataclass(frozen=True)
class RefusalCount:
    """Number of refused messages with this claimed sender and kind, and this cause. `message` is that of the last
    one.
    """

    sender: str
    kind: str
    cause: str
    times: int
    message: str = ""
    host: str = ""  # the host that refused them; empty for a conductor

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("sender", "kind", "cause", "times", "host")}


class Refusals:
    """Counter of refusals; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, str, str, str], RefusalCount] = {}
        self._taken_at = float("-inf")

    def note(self, refused: Refused) -> None:
        """Count a refusal of this process."""
        self.add(RefusalCount(refused.sender, refused.kind, refused.cause, 1, refused.message))

    def add(self, row: RefusalCount) -> None:
        key = tuple(text[:LONGEST_TEXT] for text in (row.sender, row.kind, row.cause, row.host))
        with self._lock:
            if key not in self._rows and len(self._rows) >= MOST_ROWS:
                key = (BEYOND, BEYOND, BEYOND, "")
            before = self._rows.get(key)  # type: ignore[arg-type]
            times = row.times + (before.times if before is not None else 0)
            sender, kind, cause, host = key
            self._rows[key] = RefusalCount(sender, kind, cause, times, row.message[:LONGEST_TEXT], host)  # type: ignore[index]

    def take(self, *, is_urgent: bool = False) -> list[RefusalCount]:
        """Return the counts since the last report, if one is due. Otherwise empty."""
        with self._lock:
            if not self._rows or (not is_urgent and time.monotonic() - self._taken_at < EVERY_SECONDS):
                return []
            rows, self._rows, self._taken_at = list(self._rows.values()), {}, time.monotonic()
            return rows


def row_from_json(host: str, data: Mapping[str, Any]) -> RefusalCount | None:
    """Parse a row that a host sent. None if it is invalid."""
    texts = [data.get(name) for name in ("sender", "kind", "cause")]
    times = data.get("times")
    if (
        not all(isinstance(text, str) and text.isprintable() for text in texts)
        or not isinstance(times, int)
        or not 0 < times < 2**31
    ):
        return None
    sender, kind, cause = map(str, texts)
    return RefusalCount(sender, kind, cause, times, host=host)
