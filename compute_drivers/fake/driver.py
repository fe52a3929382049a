"""A simulated hypervisor: guests that are notes in a file, on a host as large as you say, that fails as it is told."""

from __future__ import annotations

from typing import ClassVar

from compute_drivers.fake.moves import FakeMoves
from conductor.core.compute_driver import CAPABILITIES


class FakeDriver(FakeMoves):
    """Simulated guests: nothing runs behind them, and all that a driver can do can be tried.

    `host.py`, `actions.py` and `moves.py` are its parts.
    """

    name: ClassVar[str] = "fake"
    is_simulated: ClassVar[bool] = True
    supports_console_log: ClassVar[bool] = True
    # Its disks are on no shared storage.
    capabilities: frozenset[str] = frozenset(CAPABILITIES) - {"evacuate", "guest_password"}
