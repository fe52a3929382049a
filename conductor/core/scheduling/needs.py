"""The needs of a request on one host: the placement queries, and the amounts and traits of the first query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conductor.core.placement.query import CandidateQuery
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling import prefilters
from conductor.core.scheduling.resource_request import queries_of


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of one instance. Classes with nothing requested are left out.

    `queries` are tried in order. A host that cannot satisfy the first query may satisfy the next, and then gives its
    amounts.
    """

    resources: Mapping[str, int]
    required_traits: frozenset[str] = frozenset()
    queries: tuple[CandidateQuery, ...] = ()


def needs_of(spec: RequestSpec) -> Needs:
    """Return the needs. Raises Invalid for an unreadable extra spec, as ignoring it would misplace the instance."""
    global _last
    last = _last
    if last is None or last[0] is not spec:
        _last = last = (spec, needs_from(queries_of(spec, prefilters.of_request(spec) | spec.bounds)))
    return last[1]


# Explaining a decision needs the needs of one request again for every host.
_last: tuple[RequestSpec, Needs] | None = None


def needs_from(queries: Sequence[CandidateQuery]) -> Needs:
    first = queries[0]
    required = {
        name for group in first.groups.values() for names in group.required if len(names) == 1 for name in names
    }
    return Needs(
        amounts_of(first),
        frozenset(required) | first.root_required,
        tuple(queries),
    )


def amounts_of(query: CandidateQuery) -> dict[str, int]:
    """Return the amounts of all groups together, by resource class."""
    found: dict[str, int] = {}
    for group in query.groups.values():
        for name, amount in group.resources.items():
            found[name] = found.get(name, 0) + amount
    return found
