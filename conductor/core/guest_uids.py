"""The range of uids for guests' QEMU processes; it begins with their common group."""

from __future__ import annotations

# Above what Linux distributions give to users, services, containers and dynamic users.
DEFAULT_BASE = 2_000_000_000
# The uids of guests follow the base: base + 1 to base + COUNT.
COUNT = 1 << 24
