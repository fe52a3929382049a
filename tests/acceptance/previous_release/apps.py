"""Changes that apply after Django's setup, before any message or run is read."""

from __future__ import annotations

from django.apps import AppConfig


class PreviousRelease(AppConfig):
    """The release before."""

    name = "tests.acceptance.previous_release"
    label = "previous_release"

    def ready(self) -> None:
        from conductor.rpc.versions import SERVICE_VERSION
        from tests.acceptance.previous_release import wire

        wire.take_over(SERVICE_VERSION)


class NewerRelease(AppConfig):
    """The present code, with a flow that has changed since the release before."""

    name = "tests.acceptance.previous_release"
    label = "newer_release"

    def ready(self) -> None:
        from tests.acceptance.previous_release import flows

        flows.take_over()
