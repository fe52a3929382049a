"""The answer of one filter about one host, with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """True when the host passes; else `reason`, and what was needed against what was there.

    `is_unreadable` tells a host that was turned away because request and host could not be compared at all (a word
    where a number belongs, a query that is no JSON) from one that was judged.
    """

    passed: bool
    reason: str = ""
    need: str = ""
    have: str = ""
    is_unreadable: bool = False

    def __bool__(self) -> bool:
        return self.passed


PASS = Verdict(True)


def reject(reason: str, *, need: object = "", have: object = "") -> Verdict:
    """A host is turned away: say why in a plain sentence, and give need and have as short texts."""
    return Verdict(False, reason, str(need), str(have))


def unreadable(reason: str, *, need: object = "", have: object = "") -> Verdict:
    """A host is turned away because the question makes no sense there: say what could not be read."""
    return Verdict(False, reason, str(need), str(have), is_unreadable=True)
