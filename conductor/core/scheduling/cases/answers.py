"""Decisions of this scheduler on the requests of a case, as plain values for a file."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conductor.core.errors import Invalid, NovellaError
from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable
from conductor.core.placement.query import CandidateQuery
from conductor.core.plugin_choice import FILTER, WEIGHER
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling import prefilters
from conductor.core.scheduling.builtin_filters import RequestedZone, targets_of
from conductor.core.scheduling.cases.error_kinds import kind_of
from conductor.core.scheduling.cases.query_text import query_text
from conductor.core.scheduling.cases.reader import Case
from conductor.core.scheduling.cases.refusals import refusal_of
from conductor.core.scheduling.cases.requests import spec_of, uuids_of, without_zone
from conductor.core.scheduling.cases.rounds import RoundRecorder
from conductor.core.scheduling.cases.settings import check_options
from conductor.core.scheduling.filtering import Rules, verdict_of
from conductor.core.scheduling.needs import Needs, needs_from
from conductor.core.scheduling.provider_answers import answers
from conductor.core.scheduling.resource_request import queries_of, within_tree
from conductor.core.scheduling.select import Pipeline, decide
from conductor.core.scheduling.weighing import Multipliers
from conductor.core.weigher import Weigher

NO_VALID_HOST = "NoValidHost"


class NoHost(NovellaError):
    """No valid host was found."""


class CaseRefused(NovellaError):
    """Placement refuses the question that asks for VCPU in place of PCPU, and what it answered before is lost."""


@dataclass(frozen=True, slots=True)
class BuiltinPlugins:
    """The available filters and weighers."""

    filters: Sequence[type[Filter]]
    weighers: Sequence[type[Weigher]]


def answers_of(case: Case, shipped: BuiltinPlugins) -> Iterator[dict[str, Any]]:
    """Yield one answer for each request, in their order. Raises Invalid where the case names an unknown plugin."""
    schemas = [kind.options_schema for kind in shipped.filters] + [kind.options_schema for kind in shipped.weighers]
    try:
        check_options(case.settings, ChainMap(*map(dict, schemas)))
    except Invalid as error:
        raise Invalid(f'Case "{case.name}": {error.message}') from None
    filters = {kind.name: kind(case.settings.values) for kind in shipped.filters if kind.name != RequestedZone.name}
    weighers = {kind.name: kind(case.settings.values) for kind in shipped.weighers}
    enabled = _named(case, "filters", case.settings.filters, filters)
    named = tuple(weighers) if case.settings.weighers is None else case.settings.weighers
    weighing = _named(case, "weighers", named, weighers)
    keys = [(FILTER, name) for name in filters] + [(WEIGHER, name) for name in weighers]
    pipeline = Pipeline(
        filters=tuple(enabled),
        weighers=tuple(weighing),
        multipliers=Multipliers(case.settings.multipliers),
        rules=Rules(trusted=frozenset(keys)),
        max_attempts=case.settings.max_attempts,
        keeps_order=True,
        rechecks_room=False,
    )
    for request in case.requests:
        yield _Answering(case, request, pipeline).answer(filters)


class _Answering:
    """Computes the answer to one request of a case."""

    def __init__(self, case: Case, request: Mapping[str, Any], pipeline: Pipeline) -> None:
        self.case = case
        self.request = request
        self.rounds = RoundRecorder(pipeline.filters)
        self.pipeline = replace(pipeline, watcher=self.rounds)
        self.placement: list[dict[str, Any]] = []

    def answer(self, filters: Mapping[str, Filter]) -> dict[str, Any]:
        alone: dict[str, Any] = {}
        ended: dict[str, Any] = {}
        selections: list[dict[str, Any]] | None = None
        try:
            spec = spec_of(self.request, self.case.fleet, self.case.settings.config)
            alone = _alone(filters, self.case.fleet.states, spec)
            selections = self._selections(spec)
        except NoHost as error:
            ended = {"error": NO_VALID_HOST, "error_text": error.message}
        except NovellaError as error:
            ended = {"error": kind_of(error), "error_text": error.message}
        return {
            "case": self.case.name,
            "request": self.request["name"],
            "filters": alone,
            "placement": self.placement,
            "rounds": self.rounds.written,
            "selections": selections,
            **ended,
        }

    def _selections(self, spec: RequestSpec) -> list[dict[str, Any]]:
        if spec.is_rebuild:  # placement is not queried
            states, needs = self.case.fleet.states, Needs({})
        else:
            states, needs = self._candidates(spec)
        table = HostTable.from_states(states)
        uuids = uuids_of(self.request)
        outcome = decide(table, without_zone(spec), uuids, pipeline=self.pipeline, seed=0, needs=needs)
        if not outcome.is_successful:
            raise NoHost()
        return [
            {"host": chosen.host, "alternates": [one.host for one in others]}
            for chosen, *others in outcome.selections()
        ]

    def _candidates(self, spec: RequestSpec) -> tuple[tuple[HostState, ...], Needs]:
        """Return the hosts that placement gives, and the request's needs. Raises NoHost where it gives none."""
        settings, states = self.case.settings, self.case.fleet.states
        table = HostTable.from_states(states)
        try:
            bounds = prefilters.bounds_of(spec, self.case.fleet.aggregates, settings.values, is_strict=False)
        except prefilters.NoAggregateForProject as error:
            raise NoHost(error.message) from None
        queries = queries_of(spec, bounds, is_strict=False, has_fallback=settings.has_fallback)
        targets = targets_of(table, spec)
        if targets is not None:
            if not targets:
                raise NoHost("There is no such host or node.")
            one = len(targets) == 1
            queries = tuple(
                within_tree(query, states[targets[0]].provider_uuid) if one else replace(query, limit=None)
                for query in queries
            )
        found = np.zeros(len(states), np.bool_)
        requested = []
        for query in queries:
            rows = self._ask(table, query)
            if rows is None and query is not queries[0]:
                raise CaseRefused()
            if rows is not None:
                requested.append(query)
                found[rows] = True
        if not found.any():
            raise NoHost("Placement offers no host.")
        return tuple(states[row] for row in np.flatnonzero(found)), needs_from(requested)

    def _ask(self, table: HostTable, query: CandidateQuery) -> Sequence[int] | None:
        """Return the rows that placement gives, and record them. None where placement refuses the query."""
        limit = None if query.limit is None else self.case.settings.max_candidates
        query = replace(query, limit=limit)
        requested: dict[str, Any] = {"query": query_text(query), "hosts": None}
        self.placement.append(requested)
        refusal = refusal_of(query, table)
        if refusal:
            requested["text"] = refusal
            return None
        rows = [int(row) for row in np.flatnonzero(answers(table, query))][:limit]
        requested["hosts"] = [table.states[row].host for row in rows]
        return rows


def _alone(filters: Mapping[str, Filter], states: Sequence[HostState], spec: RequestSpec) -> dict[str, Any]:
    """Run each filter on all hosts, with its reasons."""
    table = HostTable.from_states(states)
    found: dict[str, Any] = {}
    for name, one in filters.items():
        rejects: list[str] = []
        reasons: dict[str, str] = {}
        errors: dict[str, str] = {}
        found[name] = {"rejects": rejects, "reasons": reasons, "errors": errors}
        if spec.is_rebuild and not one.runs_on_rebuild:
            continue
        for row, state in enumerate(states):
            verdict = verdict_of(one, table, spec, row)
            if verdict.is_unreadable:
                errors[state.host] = verdict.reason
            elif not verdict:
                rejects.append(state.host)
                reasons[state.host] = verdict.reason
    return found


def _named(case: Case, key: str, names: Sequence[str], known: Mapping[str, Any]) -> list[Any]:
    for number, name in enumerate(names):
        if name not in known:
            raise Invalid(f'Case "{case.name}": {key}[{number}]: there is no "{name}"; known are {", ".join(known)}.')
    return [known[name] for name in names]
