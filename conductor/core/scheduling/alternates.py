"""Orders candidates by weight, picks one of the best, and keeps the next best as alternates."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import groupby

import numpy as np

from conductor.core.host_state import Column, Factor, HostTable
from conductor.core.scheduling.filtering import Rows
from conductor.core.scheduling.weighing import OUT

STRIPES = 64  # hosts per group: the group maxima show where the heaviest hosts begin
LEADERS = 32  # computed where a few are needed: mostly they include those of one cell
FEW = 512  # with more leaders, the shortcut saves nothing
LEAST = -np.finfo(np.float64).max  # smallest finite weight; hosts that are no candidates are below


class Ranking:
    """Candidates by weight. The heaviest ones are computed once, and usually suffice for all queries."""

    def __init__(self, totals: Column) -> None:
        self.totals = totals
        self._by_factor: tuple[Factor, dict[int, dict[int, float]]] | None = None

    @cached_property
    def _leaders(self) -> dict[int, float]:
        return _leaders(self.totals)

    def best(self, count: int, seed: int | None) -> list[int]:
        """Return the `count` heaviest candidates, best first; fewer if there are no more.

        Ties are ordered at random by the seed, so that concurrent schedulers do not all take the same host. Without a
        seed they keep their order.
        """
        if count > len(self._leaders):
            return _best(self.totals, count, seed)
        return _best_leaders(self._leaders, count, seed)

    def leaders_by(self, factor: Factor) -> dict[int, dict[int, float]]:
        """Return the heaviest candidates, by the codes of a factor: rows with their weights."""
        if self._by_factor and self._by_factor[0] is factor:
            return self._by_factor[1]
        rows = list(self._leaders)
        found: dict[int, dict[int, float]] = {}
        for row, code in zip(rows, factor.codes[rows].tolist() if rows else (), strict=True):
            found.setdefault(code, {})[row] = self._leaders[row]
        self._by_factor = factor, found
        return found


def best_rows(totals: Column, count: int, seed: int | None) -> list[int]:
    """Return `Ranking.best` for a single query."""
    return _best(totals, count, seed)


def _best(weights: Column, count: int, seed: int | None) -> list[int]:
    if seed is None:
        return heaviest(weights, count)
    if len(weights) <= FEW:
        return _drawn(weights.tolist(), count, seed)
    if LEADERS < count < len(weights):  # partition first: otherwise each draw scans all
        ahead = (weights >= max(float(np.partition(weights, -count)[-count]), LEAST)).nonzero()[0]
        return [int(ahead[place]) for place in _drawn(weights[ahead].tolist(), count, seed)]
    return _drain(weights if count == 1 else weights.copy(), count, seed)


def _drawn(weights: list[float], count: int, seed: int) -> list[int]:
    """Return the rows as `_drain` does, in plain Python, which is faster than numpy for few hosts."""
    if count == 1:
        top = max(weights, default=OUT)
        return _some_of([place for place, weight in enumerate(weights) if weight == top], 1, seed) if top > OUT else []
    places = sorted((place for place, weight in enumerate(weights) if weight > OUT), key=lambda one: -weights[one])
    best: list[int] = []
    for _, level in groupby(places, key=weights.__getitem__):
        if len(best) >= count:
            break
        best += _some_of(list(level), count - len(best), seed)
    return best


def _drain(left: Column, count: int, seed: int) -> list[int]:
    """Return the rows as `best_rows` does, and remove them from the weights. One scan per distinct weight: for few
    rows.
    """
    best: list[int] = []
    while len(best) < count and len(left):
        top = left.max()
        if top == OUT:
            break
        level = (left == top).nonzero()[0]
        best += _some_of(level, count - len(best), seed)
        if len(best) < count:
            left[level] = OUT
    return best


def _some_of(level: Sequence[int] | Rows, most: int, seed: int) -> list[int]:
    """Return up to `most` of the hosts of equal weight, in an order drawn from the seed."""
    if len(level) == 1:
        return [int(level[0])]
    drawn = random.Random(seed).sample(range(len(level)), min(most, len(level)))
    return [int(level[index]) for index in drawn]


def heaviest(totals: Column, count: int) -> list[int]:
    """Return the rows of the `count` heaviest candidates, best first; ties in the order of their rows."""
    rows: Rows = np.flatnonzero(totals >= _floor(totals, count))
    weights = totals[rows]
    if 0 < count < len(rows):  # partition first: a full sort would cost more than the decision
        limit = np.partition(weights, len(rows) - count)[len(rows) - count]
        ahead, level = np.flatnonzero(weights > limit), np.flatnonzero(weights == limit)
        kept = np.sort(np.concatenate((ahead, level[: count - len(ahead)])))
        rows, weights = rows[kept], weights[kept]
    return [int(row) for row in rows[np.argsort(-weights, kind="stable")][:count]]


def _floor(totals: Column, count: int) -> float:
    """Return a weight that at least `count` hosts reach: the smallest of the `count` largest group maxima.

    It is LEAST if there are too few groups. A group is a strided slice of the hosts: its maximum costs a sixth of that
    of adjacent hosts.
    """
    groups = len(totals) // STRIPES
    if not 0 < count <= groups:
        return LEAST
    tops = totals[: groups * STRIPES].reshape(STRIPES, groups).max(axis=0)
    tops.partition(groups - count)
    return max(float(tops[groups - count]), LEAST)


def pick(ordered: list[int], generator: random.Random | None) -> int:
    """Return the best row, or a random one with a generator."""
    return generator.choice(ordered) if generator else ordered[0]


def alternates_by_cell(
    hosts: HostTable, ranking: Ranking, picked: Collection[int], *, count: int, seed: int | None, among: int = 1
) -> dict[str, list[int]]:
    """Return the next best hosts by cell, for each cell of a picked host: `count` hosts that no instance of the request
    got.

    With `among` above 1 they are drawn from that many times as many. Otherwise all requests that lose a claim would
    collide again at the same next best host.
    """
    if count <= 0:
        return {}
    cells = hosts.factor("cell")
    still = sum(bool(ranking.totals[row] > OUT) for row in picked)  # the caller may have removed them already
    most = count if seed is None else count * among
    near = ranking.leaders_by(cells)
    found: dict[str, list[int]] = {}
    for code in {int(cells.codes[row]) for row in picked}:
        leaders = near.get(code, {})
        if len(leaders) >= most + still:
            best = _best_leaders({row: one for row, one in leaders.items() if row not in picked}, most, seed)
        else:
            rows = cells.rows(code)
            left = ranking.totals[rows]
            left[np.isin(rows, list(picked))] = OUT
            best = rows[_best(left, most, seed)].tolist()
        if seed is not None and among > 1:
            best = random.Random(seed).sample(best, min(count, len(best)))
        found[cells.values[code]] = best
    return found


def _best_leaders(leaders: Mapping[int, float], count: int, seed: int | None) -> list[int]:
    rows, weights = list(leaders), list(leaders.values())
    if seed is not None:
        return [rows[place] for place in _drawn(weights, count, seed)]
    return sorted(rows, key=lambda row: -leaders[row])[:count]


def _leaders(totals: Column) -> dict[int, float]:
    """Return the heaviest candidates, including ties, with their weights. Empty where the shortcut saves nothing."""
    floor = _floor(totals, LEADERS)
    if floor == LEAST:
        return {}
    rows: Rows = (totals >= floor).nonzero()[0]
    return dict(zip(rows.tolist(), totals[rows].tolist(), strict=True)) if len(rows) <= FEW else {}
