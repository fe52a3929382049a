"""Working copy of the hosts while one request is placed: each pick updates it in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

from conductor.core.host_state import CLAIMED_COLUMNS, Column, HostState, HostTable, read_only
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.hardware_fit import with_hardware_taken
from conductor.core.scheduling.host_trees import Parts, sharing_rows, with_taken
from conductor.core.scheduling.needs import Needs
from conductor.core.scheduling.provider_answers import parts_at, resources_at


class _Rows(Sequence[HostState]):
    """States that only their owner can change, in place."""

    def __init__(self, states: Sequence[HostState]) -> None:
        self._states = list(states)

    def __len__(self) -> int:
        return len(self._states)

    @overload
    def __getitem__(self, index: int) -> HostState: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[HostState]: ...
    def __getitem__(self, index: int | slice) -> HostState | Sequence[HostState]:
        return self._states[index]

    def __iter__(self) -> Iterator[HostState]:
        return iter(self._states)

    def put(self, row: int, state: HostState) -> None:
        self._states[row] = state


class WorkingTable:
    """Mutable view of the hosts: filters and weighers read `hosts`; `take` adds an instance to a host.

    The table is copied at the first pick; after that a pick costs one row, regardless of the number of hosts.
    """

    def __init__(self, hosts: HostTable) -> None:
        self.hosts = hosts
        self._rows: _Rows | None = None
        self._columns: dict[str, Column] = {}
        self._claimed: set[int] = set()
        self.sharers: list[int] = []  # other hosts with less after the last pick

    def take(self, row: int, spec: RequestSpec, needs: Needs) -> RequestSpec:
        """Place an instance of `spec` on the host in `row`. Return the request for the next instance.

        The request is the same, except for hardware choices that were made here, such as the page size.
        """
        rows = self._rows or self._open()
        parts = parts_at(rows[row], needs)
        state = _with_one_more(rows[row], spec, needs, parts)
        if spec.numa is not None or spec.pci_requests:
            state, spec = with_hardware_taken(state, spec)
        self.sharers = list(sharing_rows(self.hosts, row, parts)) if parts else []
        for other in self.sharers:
            self._put(other, with_taken(rows[other], parts))
        self._put(row, state)
        return spec

    def _put(self, row: int, state: HostState) -> None:
        if self._rows is not None:
            self._rows.put(row, state)
        self._claimed.add(row)
        for name, of in CLAIMED_COLUMNS.items():
            self._columns[name][row] = of(state)

    def _open(self) -> _Rows:
        self._rows = rows = _Rows(self.hosts.states)
        self._columns = {name: getattr(self.hosts, name).copy() for name in CLAIMED_COLUMNS}
        views: dict[str, Any] = {name: read_only(column.view()) for name, column in self._columns.items()}
        self.hosts = replace(self.hosts, states=rows, claimed_rows=self._claimed, identity=None, **views)
        return rows


def with_more(state: HostState, spec: RequestSpec, needs: Needs, count: int) -> HostState:
    """Return a host with one provider, with `count` more instances."""
    for _ in range(count):
        state = _with_one_more(state, spec, needs, {})
    return state


def _with_one_more(state: HostState, spec: RequestSpec, needs: Needs, parts: Parts) -> HostState:
    flavor = spec.flavor
    least = state.disk_available_least_gb
    resources = resources_at(state, needs)
    amounts = {
        name: replace(amount, used=amount.used + resources.get(name, 0)) for name, amount in state.amounts.items()
    }
    more = replace(
        state,
        vcpus_used=state.vcpus_used + resources.get("VCPU", 0),
        memory_mb_used=state.memory_mb_used + resources.get("MEMORY_MB", 0),
        disk_gb_used=state.disk_gb_used + resources.get("DISK_GB", 0),
        amounts=amounts if amounts else state.amounts,
        drift_vcpus=state.drift_vcpus + flavor.vcpus - resources.get("VCPU", 0),
        drift_memory_mb=state.drift_memory_mb + flavor.memory_mb - resources.get("MEMORY_MB", 0),
        drift_disk_gb=state.drift_disk_gb + flavor.root_gb + flavor.ephemeral_gb - resources.get("DISK_GB", 0),
        disk_available_least_gb=None if least is None else least - flavor.root_gb - flavor.ephemeral_gb,
        num_instances=state.num_instances + 1,
        num_io_ops=state.num_io_ops + 1,
    )
    return with_taken(more, parts) if parts else more
