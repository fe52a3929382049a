"""What a cloud asks of a guest's host at once, without a workflow: it changes nothing that a workflow is about."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class GuestQuestion(StrEnum):
    """Each is answered with JSON values; none has the name of a kind of console."""

    DIAGNOSTICS = "diagnostics"
    PASSWORD = "password"
    FORGET_PASSWORD = "forget_password"


# Names of core.compute_driver.CAPABILITIES.
CAPABILITY_OF: Mapping[GuestQuestion, str] = {
    GuestQuestion.DIAGNOSTICS: "diagnostics",
    GuestQuestion.PASSWORD: "guest_password",
    GuestQuestion.FORGET_PASSWORD: "guest_password",
}
