"""Has the host few enough instances in the making?"""

from __future__ import annotations

from conductor.core.scheduling.count_limits import BuildsLimit


class IoOpsFilter(BuildsLimit):
    """Keep hosts on which fewer instances than `max_io_ops_per_host` are being built, moved or copied."""

    name = "IoOpsFilter"
