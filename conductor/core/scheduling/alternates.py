"""Order candidates by weight, pick among the best, and keep the next best as alternates."""

from __future__ import annotations

import random
from collections.abc import Collection

import numpy as np

from conductor.core.host_state import Column, HostTable
from conductor.core.scheduling.filtering import Rows
from conductor.core.scheduling.weighing import OUT

BLOCK = 64
LEAST = -np.finfo(np.float64).max  # of all weights that are numbers; those who are no candidates have less


def best_rows(totals: Column, count: int, seed: int | None) -> list[int]:
    """The `count` heaviest candidates, best first; fewer where there are no more.

    Hosts of equal weight come in an order drawn from the seed, so that schedulers side by side do not all take
    the same one. Without a seed they keep their order.
    """
    if seed is None:
        return heaviest(totals, count)
    return _drain(totals if count == 1 else totals.copy(), count, seed)


def _drain(left: Column, count: int, seed: int) -> list[int]:
    """`best_rows`, which strikes out what it takes. Each distinct weight costs one look: meant for a handful."""
    best: list[int] = []
    while len(best) < count and len(left):
        top = left.max()
        if top == OUT:
            break
        level = (left == top).nonzero()[0]
        wanted = min(count - len(best), len(level))
        drawn = random.Random(seed).sample(range(len(level)), wanted) if len(level) > 1 else (0,)
        best += [int(level[index]) for index in drawn]
        if len(best) < count:
            left[level] = OUT
    return best


def heaviest(totals: Column, count: int) -> list[int]:
    """The rows of the `count` heaviest candidates, best first; equals in the order of their rows."""
    rows: Rows = np.flatnonzero(totals >= _floor(totals, count))
    weights = totals[rows]
    if 0 < count < len(rows):  # split first: sorting all would cost more than the decision
        limit = np.partition(weights, len(rows) - count)[len(rows) - count]
        ahead, level = np.flatnonzero(weights > limit), np.flatnonzero(weights == limit)
        kept = np.sort(np.concatenate((ahead, level[: count - len(ahead)])))
        rows, weights = rows[kept], weights[kept]
    return [int(row) for row in rows[np.argsort(-weights, kind="stable")][:count]]


def _floor(totals: Column, count: int) -> float:
    """A weight that at least `count` candidates have, or the least of all: of so many blocks, each has one."""
    blocks = len(totals) // BLOCK
    if not 0 < count <= blocks:
        return LEAST
    tops = totals[: blocks * BLOCK].reshape(blocks, BLOCK).max(axis=1)
    floor = np.partition(tops, blocks - count)[blocks - count]
    return max(float(floor), LEAST)


def pick(ordered: list[int], generator: random.Random | None) -> int:
    """The best row, or with a generator any of them, drawn at random."""
    return generator.choice(ordered) if generator else ordered[0]


def alternates_by_cell(
    hosts: HostTable, totals: Column, picked: Collection[int], *, count: int, seed: int | None, among: int = 1
) -> dict[str, list[int]]:
    """For each cell of a picked host, its `count` next best hosts that no instance of the request was given.

    With `among` above 1 each is drawn from so many: where the best are drawn, who loses a claim would else find all
    others that lost one at the same next best host.
    """
    if count <= 0:
        return {}
    cells = hosts.factor("cell")
    chosen = list(picked)
    free = totals.copy()
    free[chosen] = OUT
    found: dict[str, list[int]] = {}
    for code in set(cells.codes[chosen].tolist()):
        rows = cells.rows(code)
        left = free[rows]
        if seed is None:
            best = heaviest(left, count)
        else:
            best = _drain(left, count * among, seed)
            if among > 1:
                best = random.Random(seed).sample(best, min(count, len(best)))
        found[cells.values[code]] = [int(rows[index]) for index in best]
    return found
