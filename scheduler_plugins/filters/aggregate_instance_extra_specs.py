"""Filter by the flavor's extra specs against the metadata of the host's aggregates."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from conductor.core.extra_spec_operators import UnreadableError, match, meets
from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.aggregate_metadata import words
from conductor.core.verdict import PASS, Verdict, reject, unreadable

SCOPE = "aggregate_instance_extra_specs"
Values = frozenset[str]


class AggregateInstanceExtraSpecsFilter(Filter):
    """Match extra specs, unscoped or in this filter's scope, against the metadata of the host's aggregates.

    At least one value in the aggregates must satisfy each extra spec. A host is rejected if none of its aggregates has
    the key.
    """

    name = "AggregateInstanceExtraSpecsFilter"
    runs_once_per_request = True
    is_on_by_default = False

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        mask = hosts.everyone
        for key, requirement in _wanted(spec):
            factor = hosts.factor(f"aggregates:{key}", partial(_values, key=key))
            mask = mask & factor.mask(partial(_has_match, requirement=requirement))
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        for key, requirement in _wanted(spec):
            values = _values(host, key)
            if _has_match(values, requirement):
                continue
            have = ", ".join(sorted(values)) or "not there"
            fault = _fault(values, requirement)
            if fault:
                return unreadable(
                    message("reject.aggregate_spec_unreadable", key=key, requirement=requirement, fault=fault),
                    need=requirement,
                    have=have,
                )
            reason = message("reject.aggregate_spec", key=key, requirement=requirement)
            return reject(reason, need=requirement, have=have)
        return PASS


def _wanted(spec: RequestSpec) -> Iterator[tuple[str, str]]:
    """Yield key and requirement of each extra spec about aggregates."""
    for name, requirement in spec.flavor.extra_specs.items():
        scope, colon, key = name.partition(":")
        if not colon:
            yield scope, str(requirement)
        elif scope == SCOPE:
            yield key, str(requirement)


def _values(host: HostState, key: str) -> Values:
    return words(host.aggregate_metadata.get(key, frozenset()))


def _has_match(values: Values, requirement: str) -> bool:
    return any(match(value, requirement) for value in values)


def _fault(values: Values, requirement: str) -> str:
    """Return why one of the values cannot be compared; empty where all can."""
    for value in sorted(values):
        try:
            meets(value, requirement)
        except UnreadableError as error:
            return str(error)
    return ""
