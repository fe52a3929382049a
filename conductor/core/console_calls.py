"""What a console proxy says to a host before it is joined to a guest, and what the host answers: one line of JSON each.

After `READY` the connection is the console itself, byte for byte. A question is answered, and that is all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from conductor.core.consoles import ConsoleKind, WatchedKind
from conductor.core.errors import Invalid
from conductor.core.guest_questions import GuestQuestion

LONGEST_LINE = 2048
LONGEST_ANSWER = 65536
READY: bytes = b'{"ready": true}\n'
Kind = ConsoleKind | WatchedKind | GuestQuestion
KINDS: Mapping[str, Kind] = {kind.value: kind for kind in (*ConsoleKind, *WatchedKind, *GuestQuestion)}


@dataclass(frozen=True)
class ConsoleCall:
    """Which console is wanted, or what of a guest is asked. `key` is the secret by which the host knows the cloud."""

    key: str
    host: str
    instance_uuid: str
    kind: Kind

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> ConsoleCall:
        """The inverse of `to_line`. Raises Invalid."""
        try:
            said = json.loads(line)
            texts = {name: str(said[name]) for name in ("key", "host", "instance_uuid")}
            return cls(**texts, kind=KINDS[said["kind"]])
        except (ValueError, KeyError, TypeError):
            raise Invalid("That is no call for a console.") from None


def answer(values: Mapping[str, Any]) -> bytes:
    """What a host answers to a question."""
    return json.dumps({"answer": dict(values)}).encode() + b"\n"


def answered(line: bytes) -> dict[str, Any] | None:
    """The inverse of `answer`; None for a line that is none."""
    try:
        return dict(json.loads(line)["answer"])
    except (ValueError, KeyError, TypeError):
        return None


def refusal(message: str) -> bytes:
    """The answer of a host that cannot join; always shorter than a line may be."""
    return json.dumps({"error": message[:500]}).encode() + b"\n"


def why_not(answer: bytes) -> str:
    """What a host's answer says that is not `READY`; empty for one that is."""
    if answer == READY:
        return ""
    try:
        return str(json.loads(answer)["error"])
    except (ValueError, KeyError, TypeError):
        return "The host gave no answer."
