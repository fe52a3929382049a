"""Order candidates by weight, pick among the best, and keep the next best as alternates."""

from __future__ import annotations

import random
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from conductor.core.host_state import HostTable
from conductor.core.scheduling.filtering import Rows
from conductor.core.scheduling.weighing import Weighing


def best_rows(weighing: Weighing, count: int, seed: int) -> Rows:
    """The `count` heaviest candidates, best first. Hosts of equal weight come in an order drawn from the seed,
    so that schedulers side by side do not all take the same one."""
    rows, totals = weighing.rows, weighing.totals
    count = min(count, len(rows))
    if count == 0:
        return rows[:0]
    # The count-th greatest weight splits the candidates without sorting them all.
    limit = totals.max() if count == 1 else np.partition(totals, len(totals) - count)[len(totals) - count]
    ahead = np.flatnonzero(totals > limit)
    level = np.flatnonzero(totals == limit)
    if len(level) > count - len(ahead):
        wanted = count - len(ahead)
        draws = _draws(rows[level], seed)
        level = level[np.argpartition(draws, wanted - 1)[:wanted]]
    chosen = np.concatenate((ahead, level))
    order = np.lexsort((_draws(rows[chosen], seed), -totals[chosen]))
    return rows[chosen[order]]


def pick(ordered: Rows, subset_size: int, generator: random.Random) -> Rows:
    """`ordered` with one of its first `subset_size` rows, drawn at random, moved to the front."""
    if subset_size <= 1 or len(ordered) <= 1:
        return ordered
    index = generator.randrange(min(subset_size, len(ordered)))
    return np.concatenate((ordered[index : index + 1], ordered[:index], ordered[index + 1 :]))


def alternates_by_cell(
    hosts: HostTable, weighing: Weighing, picked: Collection[int], *, count: int, seed: int
) -> dict[str, Rows]:
    """For each cell of a picked host, its `count` next best hosts that no instance of the request was given."""
    if count <= 0 or not len(weighing.rows):
        return {}
    cells = hosts.factor("cell")
    codes = cells.codes[weighing.rows]
    is_free = np.ones(len(hosts), np.bool_)
    is_free[list(picked)] = False
    free = is_free[weighing.rows]
    found: dict[str, Rows] = {}
    for code in {int(cells.codes[row]) for row in picked}:
        mine = np.flatnonzero(free & (codes == code))
        part = Weighing(weighing.rows[mine], weighing.totals[mine])
        found[cells.values[code]] = best_rows(part, count, seed)
    return found


def _draws(rows: Rows, seed: int) -> NDArray[np.uint64]:
    """A number per row that looks random, by the seed."""
    mixed = (rows.astype(np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return mixed ^ (mixed >> np.uint64(32))
