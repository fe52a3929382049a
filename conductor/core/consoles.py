"""Kinds of consoles through which people work in a guest or watch it, and what a driver must be able to do for each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ConsoleKind(StrEnum):
    """A screen with keys and pointer, or a serial line."""

    VNC = "vnc"
    SERIAL = "serial"


class WatchedKind(StrEnum):
    """A console that is joined to whoever works in it, for somebody who only watches.

    A serial line has one reader, so its host copies to watchers what that one reads. Hosts that do not know this word
    refuse it; `serial` would take the line away from whoever works on it. A screen has room for all.
    """

    SERIAL = "watched-serial"


# Names of core.compute_driver.CAPABILITIES.
CAPABILITY_OF: Mapping[ConsoleKind, str] = {
    ConsoleKind.VNC: "vnc_console",
    ConsoleKind.SERIAL: "serial_console",
}
