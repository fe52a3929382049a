"""System containers on this machine: an init of their own on a disk of their own, started by an OCI runtime."""

from __future__ import annotations

from typing import ClassVar

from compute_drivers.container.moves import ContainerMoves


class ContainerDriver(ContainerMoves):
    """System containers on Linux: an init of their own, started by an OCI runtime.

    `host.py`, `making.py`, `actions.py` and `moves.py` are its parts.
    """

    name: ClassVar[str] = "container"
    supports_console_log: ClassVar[bool] = True
    capabilities: frozenset[str] = frozenset(
        {"pause", "rescue", "rebuild", "snapshot", "set_password", "serial_console", "attach_interface", "migrate"}
    )
