"""Kinds of consoles in which users work in a guest or watch it, and the driver capability that each needs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ConsoleKind(StrEnum):
    """A screen with keys and pointer, or a serial line."""

    VNC = "vnc"
    SERIAL = "serial"


class WatchedKind(StrEnum):
    """A console for a user who only watches, beside the user who works in it.

    A serial line has one reader, so its host copies to watchers what that user reads. Hosts that do not know this kind
    refuse it; `serial` would take the line away from the user who works in it. A screen can have many readers.
    """

    SERIAL = "watched-serial"


# Names of core.compute_driver.CAPABILITIES.
CAPABILITY_OF: Mapping[ConsoleKind, str] = {
    ConsoleKind.VNC: "vnc_console",
    ConsoleKind.SERIAL: "serial_console",
}
