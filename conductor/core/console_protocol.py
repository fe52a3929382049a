"""Protocol between a console proxy and a host's console relay: one JSON line each way, then the console's data.

After `READY` the connection carries the console's bytes. A query gets one line as its answer, and nothing more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from conductor.core.consoles import ConsoleKind, WatchedKind
from conductor.core.errors import Invalid
from conductor.core.guest_questions import GuestQuestion

MAX_LINE_BYTES = 2048
MAX_ANSWER_BYTES = 65536
READY: bytes = b'{"ready": true}\n'
RequestKind = ConsoleKind | WatchedKind | GuestQuestion
REQUEST_KINDS: Mapping[str, RequestKind] = {kind.value: kind for kind in (*ConsoleKind, *WatchedKind, *GuestQuestion)}


@dataclass(frozen=True)
class ConsoleRequest:
    """A request for a guest's console, or a query about the guest.

    Attributes:
        key: The secret that the host gave the cloud.
    """

    key: str
    host: str
    instance_uuid: str
    kind: RequestKind

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> ConsoleRequest:
        """Parse a request line. Raises Invalid."""
        try:
            values = json.loads(line)
            texts = {name: str(values[name]) for name in ("key", "host", "instance_uuid")}
            return cls(**texts, kind=REQUEST_KINDS[values["kind"]])
        except (ValueError, KeyError, TypeError):
            raise Invalid("That is no call for a console.") from None


def encode_answer(values: Mapping[str, Any]) -> bytes:
    """Return the line that answers a query."""
    return json.dumps({"answer": dict(values)}).encode() + b"\n"


def decode_answer(line: bytes) -> dict[str, Any] | None:
    """Parse the line that answers a query. None for any other line."""
    try:
        return dict(json.loads(line)["answer"])
    except (ValueError, KeyError, TypeError):
        return None


def encode_error(message: str) -> bytes:
    """Return the line that refuses a request. It is always shorter than MAX_LINE_BYTES."""
    return json.dumps({"error": message[:500]}).encode() + b"\n"


def decode_error(line: bytes) -> str:
    """Return the message of a line that refuses a request. Empty for `READY`."""
    if line == READY:
        return ""
    try:
        return str(json.loads(line)["error"])
    except (ValueError, KeyError, TypeError):
        return "The host gave no answer."
