"""Consoles of guests: what kinds there are."""

from __future__ import annotations

from enum import StrEnum


class ConsoleKind(StrEnum):
    """A screen with keys and pointer, or a serial line."""

    VNC = "vnc"
    SERIAL = "serial"
