"""Filter by the flavor's extra specs against the host's capabilities."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from conductor.core.extra_spec_operators import UnreadableError, match, meets
from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message, word
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.host_attributes import CHANGING, capability, is_named
from conductor.core.verdict import PASS, Verdict, reject, unreadable

SCOPE = "capabilities"
ADDRESS_BITS = "hw:maxphysaddr_bits"
ADDRESS_BITS_PATH = ("cpu_info", "maxphysaddr", "bits")
NOT_NAMED = "\0"  # no capability has this text


class WantedCapability(NamedTuple):
    """One extra spec about capabilities. Without a scope it applies only where the host has the name."""

    path: tuple[str, ...]
    requirement: str
    is_scoped: bool


class ComputeCapabilitiesFilter(Filter):
    """Match extra specs capabilities:a:b against the host's capabilities, with extra spec operators.

    A key without any scope applies only where the host has that name. `hw:maxphysaddr_bits` requires at least that
    many bits of physical addresses.
    """

    name = "ComputeCapabilitiesFilter"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        mask = hosts.everyone
        for one in _wanted(spec):
            does_meet = partial(_does_meet, requirement=one.requirement)
            if one.path[0] in CHANGING or one.path[0] == "stats":
                found = (does_meet(_text(state, one)) for state in hosts.states)
                mask = mask & np.fromiter(found, np.bool_, len(hosts))
            else:
                name = f"capability:{one.is_scoped}:" + ":".join(one.path)
                mask = mask & hosts.factor(name, partial(_text, wanted=one._replace(requirement=""))).mask(does_meet)
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        for one in _wanted(spec):
            text = _text(host, one)
            name, need = ":".join(one.path), one.requirement
            try:
                if text == NOT_NAMED or (text is not None and meets(text, need)):
                    continue
            except UnreadableError as error:
                return unreadable(f"the flavor asks for {name} {need}, but {error}", need=need, have=text)
            return reject(
                message("reject.capability", key=name, requirement=need),
                need=need,
                have=word("not there") if text is None else text,
            )
        return PASS


def _wanted(spec: RequestSpec) -> Iterator[WantedCapability]:
    """Yield each extra spec about capabilities, in their order; the bits of addresses are last."""
    specs = spec.flavor.extra_specs
    bits = specs.get(ADDRESS_BITS)
    bits_key = ":".join((SCOPE, *ADDRESS_BITS_PATH))
    for key, requirement in specs.items():
        scope, *path = key.split(":")
        if not path:
            yield WantedCapability((scope,), str(requirement), False)
        elif scope == SCOPE and (bits is None or key != bits_key):
            yield WantedCapability(tuple(path), str(requirement), True)
    if bits is not None:
        yield WantedCapability(ADDRESS_BITS_PATH, f">= {bits}", True)


def _text(host: HostState, wanted: WantedCapability) -> str | None:
    """Return the host's value as a text; None where it has none, NOT_NAMED where the key does not apply."""
    if not wanted.is_scoped and not is_named(host, wanted.path[0]):
        return NOT_NAMED
    value = capability(host, wanted.path)
    return None if value is None else str(value)


def _does_meet(text: str | None, requirement: str) -> bool:
    return text == NOT_NAMED or (text is not None and match(text, requirement))
