"""Kinds of consoles through which a person works in a guest, and what a driver must be able to do for each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ConsoleKind(StrEnum):
    """A screen with keys and pointer, or a serial line."""

    VNC = "vnc"
    SERIAL = "serial"


# Names of core.compute_driver.CAPABILITIES.
CAPABILITY_OF: Mapping[ConsoleKind, str] = {
    ConsoleKind.VNC: "vnc_console",
    ConsoleKind.SERIAL: "serial_console",
}
