"""Weigher that prefers hosts in the cell of a server that moves."""

from __future__ import annotations

import numpy as np

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher


class CrossCellWeigher(Weigher):
    """For moves across cells: 1 for hosts in the server's cell, -1 for others."""

    name = "CrossCellWeigher"
    multiplier = 1_000_000.0
    multiplier_option = "cross_cell_move_weight_multiplier"

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        if not (spec.requested_cell and spec.allows_cross_cell_move):
            return hosts.zeros
        at_home = hosts.factor("cell").mask(lambda cell: cell == spec.requested_cell)
        return np.where(at_home, 1.0, -1.0)
