"""Decision cache: results of a class of requests are reused, and only hosts that changed are judged again.

A class is everything in a request that filters and weighers may read. The cache stores its first round with the host
table of that round. On a later table the filters judge only the rows that differ. Weights are added up again only where
they or their ranges have changed. The result is, bit for bit, that of judging all hosts. The cache covers only plugins
that ship, as others may judge a host by its neighbours.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from conductor.core.host_state import HostTable
from conductor.core.plugin_choice import FILTER, WEIGHER
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.alternates import Ranking
from conductor.core.scheduling.filtering import Filtering, Stage, verdict_of
from conductor.core.scheduling.needs import Needs
from conductor.core.scheduling.watching import Turn, Watch
from conductor.core.scheduling.weighing import Weighing
from conductor.core.weigher import Weigher

CLASSES_KEPT = 64
HOSTS_KEPT = 1_000_000  # of all classes together: each host of a class takes about 60 bytes
ROWS_AT_MOST = 16  # with more rows, judging all hosts at once is cheaper
Key = Hashable


@dataclass(frozen=True)
class CachedRound:
    """The first round of a class. It is never modified."""

    identity: object
    needs: Needs
    filtering: Filtering
    weighing: Weighing
    weighers: tuple[Weigher, ...]

    @cached_property
    def unasked(self) -> tuple[Stage, ...]:
        """The stages of the filters, with no time spent."""
        return tuple(stage._replace(seconds=0.0) for stage in self.filtering.stages)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The plugin runs to account for when no plugin runs."""
        filters = ((FILTER, stage.filter, 0.0, stage.rejected) for stage in self.filtering.stages)
        return *filters, *((WEIGHER, one, 0.0, 0) for one in self.weighers)

    @cached_property
    def ranking(self) -> Ranking:
        return Ranking(self.weighing.totals)


class DecisionCache:
    """The most recently requested classes; thread-safe."""

    def __init__(self, size: int = CLASSES_KEPT) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._classes: OrderedDict[Key, CachedRound] = OrderedDict()
        self.hits = self.misses = 0

    def find(self, key: Key) -> CachedRound | None:
        with self._lock:
            found = self._classes.get(key)
            if found is not None:
                self._classes.move_to_end(key)
            return found

    def keep(self, key: Key, remembered: CachedRound) -> None:
        with self._lock:
            self._classes[key] = remembered
            self._classes.move_to_end(key)
            most = min(self._size, max(1, HOSTS_KEPT // max(1, len(remembered.weighing.totals))))
            while len(self._classes) > most:
                self._classes.popitem(last=False)

    def count(self, *, is_hit: bool) -> None:
        with self._lock:
            self.hits += is_hit
            self.misses += not is_hit


class ReadOnlyCache(DecisionCache):
    """A read-only view of a cache, for hosts that no later request starts with. It finds rounds and stores none."""

    def __init__(self, cache: DecisionCache) -> None:
        self._cache = cache

    def find(self, key: Key) -> CachedRound | None:
        return self._cache.find(key)

    def keep(self, key: Key, remembered: CachedRound) -> None:
        pass

    def count(self, *, is_hit: bool) -> None:
        self._cache.count(is_hit=is_hit)


def unchanged(kept: CachedRound, watch: Watch) -> Filtering:
    """Return the filters' stages for unchanged hosts: no filter and no weigher runs."""
    watch.note_all(kept.turns)
    return Filtering(kept.unasked, kept.filtering.passing, (), Watch(watch.rules))


def filtered_again(
    kept: CachedRound, hosts: HostTable, spec: RequestSpec, rows: Sequence[int], watch: Watch
) -> Filtering | None:
    """Return the filters' stages for newer hosts, judging only `rows`; None where all hosts must be judged."""
    clock, passing, coming = watch.rules.clock, hosts.everyone, rows
    stages: list[Stage] = []
    before = len(hosts)
    began = clock()
    for stage in kept.filtering.stages:
        reported = _verdicts(stage, hosts, spec, coming)
        if reported is None:
            return None
        had = [row for row in rows if stage.left[row]]
        after = stage.after + len(reported) - len(had)
        if after == before:
            left = passing  # none was rejected: the same mask object
        elif stage.left is not stage.came and had == reported:
            left = stage.left
        else:
            left = stage.left.copy()
            for row in rows:
                left[row] = row in reported
        ended = clock()
        stages.append(Stage(stage.filter, before, after, passing, left, ended - began))
        watch.note(FILTER, stage.filter, ended - began, before - after)
        passing, before, began, coming = left, after, ended, reported
        if not after:
            return None  # later filters do not run then
    return Filtering(tuple(stages), passing, (), Watch(watch.rules))


def _verdicts(stage: Stage, hosts: HostTable, spec: RequestSpec, rows: Sequence[int]) -> list[int] | None:
    """Return the rows that pass the filter. None where the filter fails, as the general path handles failures."""
    try:
        return [row for row in rows if verdict_of(stage.filter, hosts, spec, row)]
    except Exception:
        return None
