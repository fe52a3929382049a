"""What the nodes of one cell last reported of themselves: by hand, as a scheduler that starts reads all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.db import connections

from conductor.core import metrics
from conductor.core.frozen import FrozenDict, frozen
from conductor.sql.dialect import Row, run
from conductor.sql.scan import scan
from conductor.sql.worded import uuid_text

NOTHING: FrozenDict = FrozenDict()
TEXTS_KEPT = 1000  # where more than so many differ, hardly any is met again
_NODES = (
    "SELECT uuid, host, node, is_simulated, hypervisor_type, hypervisor_version, host_ip, report "
    "FROM cell_db_computenode"
)
_CHANGED = f"{_NODES} WHERE change_number > %s"
Said = tuple[tuple[tuple[str, str, str], ...], Mapping[str, Any], int | None, Mapping[str, float]]


class NodeFacts(NamedTuple):  # a dataclass that is frozen takes four times as long to make
    """A compute node as its host last reported it."""

    uuid: str
    host: str
    node: str
    is_simulated: bool
    hypervisor_type: str
    hypervisor_version: int
    supported_instances: tuple[tuple[str, str, str], ...]
    capabilities: Mapping[str, Any]
    disk_available_least_gb: int | None
    host_ip: str = ""
    metrics: Mapping[str, float] = NOTHING


def read(alias: str, since: int | None = None) -> dict[str, NodeFacts]:
    """The nodes of a cell by uuid: those that changed after change `since`, or all."""
    said = _Said()
    found = {}
    for uuid, host, node, is_simulated, kind, version, host_ip, report in _rows(alias, since):
        own = uuid_text(uuid)
        offers, capabilities, disk, measured = said.of(report)
        found[own] = NodeFacts(
            own,
            host,
            host if node == host else node,
            bool(is_simulated),
            said.once(kind),
            version,
            offers,
            capabilities,
            disk,
            said.once(host_ip or ""),
            measured,
        )
    return found


def _rows(alias: str, since: int | None) -> Iterator[Row]:
    return scan(connections[alias], _NODES) if since is None else iter(run(connections[alias], _CHANGED, (since,)))


class _Said:
    """What hosts say of themselves is mostly the same, so it is kept once, and read-only as plugins will get it."""

    def __init__(self) -> None:
        self._by_text: dict[str, Said] = {}
        self._alike: dict[Any, Any] = {}

    def of(self, report: str) -> Said:
        known = self._by_text.get(report)
        if known is None:
            known = self._read(json.loads(report) or {})
            if len(self._by_text) < TEXTS_KEPT:
                self._by_text[report] = known
        return known

    def once(self, value: Any) -> Any:
        return self._alike.setdefault(value, value)

    def _read(self, report: Mapping[str, Any]) -> Said:
        capabilities = {**report.get("capabilities", {}), "cpu_info": report.get("cpu_info", {})}
        key = repr(capabilities)
        if key not in self._alike:
            self._alike[key] = frozen(capabilities)
        offers = tuple((arch, kind, mode) for arch, kind, mode in report.get("supported_instances", ()))
        measured = frozen(metrics.kept(report.get("metrics") or {})) or NOTHING
        return self.once(offers), self._alike[key], report.get("disk_available_least_gb"), measured
