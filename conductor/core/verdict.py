"""The answer of one filter about one host, with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """True when the host passes; else `reason`, and what was needed against what was there."""

    passed: bool
    reason: str = ""
    need: str = ""
    have: str = ""

    def __bool__(self) -> bool:
        return self.passed


PASS = Verdict(True)


def reject(reason: str, *, need: object = "", have: object = "") -> Verdict:
    """A host is turned away: say why in a plain sentence, and give need and have as short texts."""
    return Verdict(False, reason, str(need), str(have))
