"""Placement queries: resources in groups, with required traits, aggregates and trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """Resources that come together. Suffix "" is the group that may be spread over a tree; any other comes whole
    from one provider.

    `required` is a conjunction of alternatives: each set must share a trait with the provider. `member_of` likewise,
    of aggregate uuids.
    """

    resources: Mapping[str, int] = field(default_factory=dict)
    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()
    in_tree: str = ""


@dataclass(frozen=True, slots=True)
class CandidateQuery:
    """A whole query: groups by suffix, and the conditions between them. `group_policy` is "none", "isolate" or ""."""

    groups: Mapping[str, RequestGroup] = field(default_factory=dict)
    group_policy: str = ""
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtrees: tuple[frozenset[str], ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds that pre-filters add to the query: traits of the root, and the aggregates that it is in and not in."""

    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, list[Any]]:
        """Return the bounds that are set."""
        found: dict[str, list[Any]] = {
            "root_required": sorted(self.root_required),
            "root_forbidden": sorted(self.root_forbidden),
            "member_of": [sorted(names) for names in self.member_of],
            "forbidden_aggregates": sorted(self.forbidden_aggregates),
        }
        return {name: values for name, values in found.items() if values}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Bounds:
        return cls(
            root_required=frozenset(data.get("root_required", ())),
            root_forbidden=frozenset(data.get("root_forbidden", ())),
            member_of=tuple(frozenset(names) for names in data.get("member_of", ())),
            forbidden_aggregates=frozenset(data.get("forbidden_aggregates", ())),
        )

    def __or__(self, other: Bounds) -> Bounds:
        return Bounds(
            self.root_required | other.root_required,
            self.root_forbidden | other.root_forbidden,
            self.member_of + other.member_of,
            self.forbidden_aggregates | other.forbidden_aggregates,
        )


UNBOUND = Bounds()
