"""Verdict of one filter on one host, with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """True when the host passes; else `reason`, and what was needed against what was there.

    `is_unreadable` marks a host that was rejected because request and host could not be compared at all (a word
    where a number belongs, a query that is not JSON).
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
    """Reject a host: `reason` says why, `need` and `have` are short texts.

    Filters that ship with Novella give messages, which pages translate; a plain string is shown as it is.
    """
    return Verdict(False, reason, str(need), str(have))


def unreadable(reason: str, *, need: object = "", have: object = "") -> Verdict:
    """Reject a host because request and host cannot be compared: `reason` says what could not be read."""
    return Verdict(False, reason, str(need), str(have), is_unreadable=True)
