"""Verdict of one filter on one host, with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict of a filter on a host. It is true when the host passes.

    Attributes:
        reason: Why the host was rejected; `need` and `have` say what was needed, and what there was.
        is_unreadable: Request and host could not be compared at all: a word where a number belongs, a query that is not
            JSON.
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
