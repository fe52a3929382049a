"""Adapter that runs a weigher of Nova as one of Novella's."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from conductor.core.host_state import Column, HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher
from scheduler_plugins.nova_adapter.asking import NovaViews
from scheduler_plugins.nova_adapter.guests import Guests, NovaObject

WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class NovaWeigher(Weigher):
    """Runs Nova's weigher on the candidates only."""

    guest: NovaObject

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self._asking = NovaViews()

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        return self.weigh_among(hosts, spec, hosts.everyone)

    def weigh_among(self, hosts: HostTable, spec: RequestSpec, passing: Mask) -> Column:
        guest = self.guest.require()
        request = self._asking.request(spec)
        rows = np.flatnonzero(passing)
        states = [hosts.states[int(row)] for row in rows]
        weighed = [SimpleNamespace(obj=self._asking.host(state, request), weight=0.0) for state in states]
        column = np.zeros(len(hosts), np.float64)
        column[rows] = list(guest.weigh_objects(weighed, request.spec))
        return column


def weigher_of(name: str, path: str, guests: Guests, multiplier: Any) -> type[NovaWeigher]:
    """Return an adapter class for the class of Nova at `path`; `multiplier` where the operator gave one."""
    guest = guests.weigher(path)
    if not (multiplier is None or _is_number(multiplier)):
        guest, multiplier = NovaObject(path, trouble=f"its multiplier is no number: {str(multiplier)[:40]}"), None
    called = path.rpartition(".")[2]
    own, option, counts_against = _multiplier(guest)
    values = {
        "__doc__": f"The weigher {path} of Nova.",
        "__module__": path.rpartition(".")[0],  # foreign code: it has a time limit
        "name": name,
        "guest": guest,
        "trouble": guest.trouble,
        "multiplier": own if multiplier is None else float(multiplier),
        "multiplier_option": option or f"{_words(called)}_weight_multiplier",
        "counts_against": counts_against,
        "minval": getattr(guest.made, "minval", None),
        "maxval": getattr(guest.made, "maxval", None),
        "compares_hosts": _compares_hosts(guest.made),
    }
    return type(called, (NovaWeigher,), values)


class _RecordingMetadata(Mapping[str, str]):
    """Aggregate metadata that records the requested keys; it has every key if it has a value."""

    def __init__(self, value: str | None = None) -> None:
        self.keys_asked: list[str] = []
        self._value = value

    def __contains__(self, key: object) -> bool:
        self.keys_asked.append(str(key))
        return self._value is not None

    def __getitem__(self, key: str) -> str:
        if self._value is None:
            raise KeyError(key)
        return self._value

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _multiplier(guest: NovaObject) -> tuple[float, str, bool]:
    """Return the weigher's own factor, its aggregate key, and whether it negates the factor."""
    if guest.made is None:
        return 1.0, "", False
    plain, recording = _RecordingMetadata(), _RecordingMetadata("1")
    try:
        factor = float(guest.made.weight_multiplier(SimpleNamespace(aggregates=[SimpleNamespace(metadata=plain)])))
        reported = guest.made.weight_multiplier(SimpleNamespace(aggregates=[SimpleNamespace(metadata=recording)]))
        counts_against = bool(plain.keys_asked) and float(reported) < 0
    except Exception:  # it reads more of a host than aggregates: only the operator's factor counts
        return 1.0, "", False
    return -factor if counts_against else factor, next(iter(plain.keys_asked), ""), counts_against


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _compares_hosts(made: Any) -> bool:
    """Whether it overrides how all candidates are weighed together."""
    return made is not None and type(made).weigh_objects.__module__ != "nova.weights"


def _words(name: str) -> str:
    return WORD.sub("_", name.removesuffix("Weigher") or name).lower()
