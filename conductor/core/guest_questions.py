"""Queries that the cloud sends to a guest's host directly, without a workflow: they change no state of the guest."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class GuestQuestion(StrEnum):
    """Kind of query; the answer is JSON. No kind has the name of a console kind."""

    DIAGNOSTICS = "diagnostics"
    PASSWORD = "password"
    FORGET_PASSWORD = "forget_password"


# Names of core.compute_driver.CAPABILITIES.
CAPABILITY_OF: Mapping[GuestQuestion, str] = {
    GuestQuestion.DIAGNOSTICS: "diagnostics",
    GuestQuestion.PASSWORD: "guest_password",
    GuestQuestion.FORGET_PASSWORD: "guest_password",
}
