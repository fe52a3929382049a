"""The search for allocation candidates: which providers, together, give all that a query asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from conductor.core.placement.amounts import Amount
from conductor.core.placement.query import CandidateQuery


@dataclass(frozen=True, slots=True)
class ProviderNode:
    """A provider as the search sees it. Providers with one `root_uuid` are a tree."""

    uuid: str
    name: str = ""
    parent_uuid: str | None = None
    root_uuid: str = ""
    generation: int = 0
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    amounts: Mapping[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """One way to get it all: amounts by class, by provider uuid; and who serves each group, by its suffix."""

    resources_by_provider: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The ways that were found, and every provider of the trees that they touch, by uuid."""

    requests: tuple[CandidateRequest, ...] = ()
    summaries: Mapping[str, ProviderNode] = field(default_factory=dict)


def find(providers: Sequence[ProviderNode], query: CandidateQuery) -> Candidates:
    """The ways to get what `query` asks for, in the order of the providers."""
    raise NotImplementedError(len(providers), query.limit)
