"""What was worked out for a request is kept for the next ones of its class: only hosts that changed are judged again.

A class is all that filters and weighers may look at in a request. Its first round is kept with the table that it was
about; on a later table the filters are asked about the rows in which the two differ, and weights are added up anew
where they or the ends that they are measured between have changed. What comes out is what a look at all hosts gives,
bit by bit. Only plugins that ship are answered for: what others say of one host may depend on another.
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
ROWS_AT_MOST = 16  # more of them cost more, one by one, than all hosts at once
Key = Hashable


@dataclass(frozen=True)
class Remembered:
    """The first round of a class. Nothing of it is ever changed."""

    identity: object
    needs: Needs
    filtering: Filtering
    weighing: Weighing
    weighers: tuple[Weigher, ...]

    @cached_property
    def unasked(self) -> tuple[Stage, ...]:
        """The filters' turns as they were, in no time."""
        return tuple(stage._replace(seconds=0.0) for stage in self.filtering.stages)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """What goes on the accounts of the plugins where none is asked."""
        filters = ((FILTER, stage.filter, 0.0, stage.rejected) for stage in self.filtering.stages)
        return *filters, *((WEIGHER, one, 0.0, 0) for one in self.weighers)

    @cached_property
    def ranking(self) -> Ranking:
        return Ranking(self.weighing.totals)


class Recall:
    """The classes that were asked for last; safe for threads."""

    def __init__(self, size: int = CLASSES_KEPT) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._classes: OrderedDict[Key, Remembered] = OrderedDict()
        self.hits = self.misses = 0

    def find(self, key: Key) -> Remembered | None:
        with self._lock:
            found = self._classes.get(key)
            if found is not None:
                self._classes.move_to_end(key)
            return found

    def keep(self, key: Key, remembered: Remembered) -> None:
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


def unchanged(kept: Remembered, watch: Watch) -> Filtering:
    """The filters' turns on hosts that are as they were: nobody is asked, no weigher either."""
    watch.note_all(kept.turns)
    return Filtering(kept.unasked, kept.filtering.passing, (), Watch(watch.rules))


def filtered_again(
    kept: Remembered, hosts: HostTable, spec: RequestSpec, rows: Sequence[int], watch: Watch
) -> Filtering | None:
    """The filters' turns on newer hosts, asked about `rows` only; None where a look at all hosts is due."""
    clock, passing, coming = watch.rules.clock, hosts.everyone, rows
    stages: list[Stage] = []
    before = len(hosts)
    began = clock()
    for stage in kept.filtering.stages:
        said = _said(stage, hosts, spec, coming)
        if said is None:
            return None
        had = [row for row in rows if stage.left[row]]
        after = stage.after + len(said) - len(had)
        if after == before:
            left = passing  # none went: the very mask that came
        elif stage.left is not stage.came and had == said:
            left = stage.left
        else:
            left = stage.left.copy()
            for row in rows:
                left[row] = row in said
        ended = clock()
        stages.append(Stage(stage.filter, before, after, passing, left, ended - began))
        watch.note(FILTER, stage.filter, ended - began, before - after)
        passing, before, began, coming = left, after, ended, said
        if not after:
            return None  # later filters are not asked then
    return Filtering(tuple(stages), passing, (), Watch(watch.rules))


def _said(stage: Stage, hosts: HostTable, spec: RequestSpec, rows: Sequence[int]) -> list[int] | None:
    """The rows that the filter lets pass; None where it fails, which has rules of its own."""
    try:
        return [row for row in rows if verdict_of(stage.filter, hosts, spec, row)]
    except Exception:
        return None
