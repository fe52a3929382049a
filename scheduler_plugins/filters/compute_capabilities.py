"""Has the host the capabilities that the flavor's extra specs ask for?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from conductor.core.extra_spec_operators import match
from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import PASS, Verdict, reject

SCOPE = "capabilities"
FIXED: Mapping[str, Callable[[HostState], Any]] = {
    "host": lambda host: host.host,
    "hypervisor_hostname": lambda host: host.node,
    "nodename": lambda host: host.node,
    "hypervisor_type": lambda host: host.hypervisor_type,
    "hypervisor_version": lambda host: host.hypervisor_version,
    "vcpus_total": lambda host: host.vcpus,
    "total_usable_ram_mb": lambda host: host.memory_mb,
    "total_usable_disk_gb": lambda host: host.disk_gb,
    "cpu_allocation_ratio": lambda host: host.cpu_ratio,
    "ram_allocation_ratio": lambda host: host.ram_ratio,
    "disk_allocation_ratio": lambda host: host.disk_ratio,
}
# These change with each instance that the host takes, so no column of them can be kept.
CHANGING: Mapping[str, Callable[[HostState], Any]] = {
    "vcpus_used": lambda host: host.vcpus_used,
    "free_ram_mb": lambda host: host.unused_memory_mb,
    "free_disk_mb": lambda host: host.unused_disk_gb * 1024,
    "num_instances": lambda host: host.num_instances,
    "num_io_ops": lambda host: host.num_io_ops,
}


class ComputeCapabilitiesFilter(Filter):
    """Compare each extra spec `capabilities:a:b` with that capability of the host, by the operators of extra specs.

    A key without any scope counts only where the host has something of that name.
    """

    name = "ComputeCapabilitiesFilter"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        mask = hosts.everyone
        for path, requirement, is_scoped in _wanted(spec):
            meets = partial(_meets, requirement=requirement, is_scoped=is_scoped)
            if path[0] in CHANGING:
                mask = mask & np.fromiter((meets(_text(state, path)) for state in hosts.states), np.bool_, len(hosts))
            else:
                mask = mask & hosts.factor("capability:" + ":".join(path), partial(_text, path=path)).mask(meets)
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        for path, requirement, is_scoped in _wanted(spec):
            value = _text(host, path)
            if not _meets(value, requirement, is_scoped):
                name = ":".join(path)
                return reject(f"the flavor asks for {name} {requirement}", need=requirement, have=value or "not there")
        return PASS


def _wanted(spec: RequestSpec) -> Iterator[tuple[list[str], str, bool]]:
    """Path, requirement and whether the key was scoped, for each extra spec that is about capabilities."""
    for key, requirement in spec.flavor.extra_specs.items():
        scope = key.split(":")
        if len(scope) == 1:
            yield scope, requirement, False
        elif scope[0] == SCOPE:
            yield scope[1:], requirement, True


def _meets(value: str | None, requirement: str, is_scoped: bool) -> bool:
    if value is None:
        return not is_scoped
    return match(value, requirement)


def _find(host: HostState, path: list[str]) -> Any:
    """The capability at `path`; None where there is none. A text in the way is read as JSON."""
    first, *rest = path
    known = FIXED.get(first) or CHANGING.get(first)
    value = known(host) if known else host.capabilities.get(first)
    for name in rest:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return None
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _text(host: HostState, path: list[str]) -> str | None:
    value = _find(host, path)
    return None if value is None else str(value)
