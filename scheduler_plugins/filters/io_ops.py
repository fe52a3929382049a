"""Filter by the number of builds and moves on the host."""

from __future__ import annotations

from conductor.core.scheduling.count_limits import BuildsLimit


class IoOpsFilter(BuildsLimit):
    """Keep hosts with fewer than max_io_ops_per_host instances being built, moved or copied."""

    name = "IoOpsFilter"
