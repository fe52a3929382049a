"""Consoles of guests: what kinds there are, and where a host has one of them."""

from __future__ import annotations

from dataclasses import dataclass

SERIAL, VNC = "serial", "vnc"
CONSOLE_KINDS = (SERIAL, VNC)


@dataclass(frozen=True, slots=True)
class ConsoleEndpoint:
    """Where the host itself reaches a console of one guest; nobody else can, and a proxy on the host must.

    Either `path`, of a Unix socket, or `address` and `port`. A serial console is the guest's plain bytes in both
    directions, and takes one client at a time; `vnc` speaks RFB, without a password. It ends when the guest ends.
    """

    kind: str
    path: str = ""
    address: str = ""
    port: int = 0
