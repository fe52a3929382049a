"""Prefer hosts of the cell in which a server is that moves."""

from __future__ import annotations

import numpy as np

from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher


class CrossCellWeigher(Weigher):
    """For moves that may leave their cell: 1 for hosts of that cell, -1 for all others."""

    name = "CrossCellWeigher"
    multiplier = 1_000_000.0
    multiplier_option = "cross_cell_move_weight_multiplier"

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        if not (spec.requested_cell and spec.allows_cross_cell_move):
            return hosts.zeros
        at_home = hosts.factor("cell").mask(lambda cell: cell == spec.requested_cell)
        return np.where(at_home, 1.0, -1.0)
