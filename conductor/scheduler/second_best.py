"""When another scheduler was faster: the next best hosts of the same pass, before everything is looked at again."""

from __future__ import annotations

from dataclasses import replace

from conductor.core.errors import ConcurrentUpdate
from conductor.core.scheduling.decision import Decision
from conductor.core.selection import Selection
from conductor.placement.allocations import ProviderFull

Selections = tuple[tuple[Selection, ...], ...]


def after(decision: Decision, error: ConcurrentUpdate) -> Decision | None:
    """The decision with alternates in the place of the host that was full by then.

    None where no alternate is left, or where more has changed than room: only a fresh look helps then.
    """
    full = error.details.get("provider_uuid", "") if isinstance(error, ProviderFull) else ""
    selections = without(decision.selections, full) if full else None
    return None if selections is None else replace(decision, selections=selections)


def without(selections: Selections, full: str) -> Selections | None:
    """The same picks with nothing on the provider that is full: each alternate stands in for one instance at most,
    as there was room for one when it was chosen. None where there are too few."""
    stand_ins: set[str] = set()
    chosen: list[Selection] = []
    for first, *rest in selections:
        if full in first.parts:
            free = (one for one in rest if full not in one.parts and one.provider_uuid not in stand_ins)
            stand_in = next(free, None)
            if stand_in is None:
                return None
            stand_ins.add(stand_in.provider_uuid)
            chosen.append(stand_in)
        else:
            chosen.append(first)
    return tuple(
        (one, *(other for other in rest if full not in other.parts and other.provider_uuid not in stand_ins))
        for one, (_, *rest) in zip(chosen, selections, strict=True)
    )
