"""Last reports of the nodes of one cell, parsed once for all nodes with equal reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db import connections

from conductor.cell_db import statements
from conductor.core import metrics
from conductor.core.frozen import FrozenDict, frozen
from conductor.db.compiled import uuid_text

NOTHING: FrozenDict = FrozenDict()
TEXTS_KEPT = 1000  # where more texts than this differ, the same one hardly comes again
NodeReport = tuple[tuple[tuple[str, str, str], ...], Mapping[str, Any], int | None, Mapping[str, float]]


class NodeFacts(NamedTuple):  # a frozen dataclass takes four times as long
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
    """Return the nodes of a cell by uuid: those that changed after change `since`, or all."""
    reported = _NodeReport()
    found = {}
    for uuid, host, node, is_simulated, kind, version, host_ip, report in statements.node_reports(
        connections[alias], since
    ):
        own = uuid_text(uuid)
        offers, capabilities, disk, measured = reported.of(report)
        found[own] = NodeFacts(
            own,
            host,
            host if node == host else node,
            bool(is_simulated),
            reported.once(kind),
            version,
            offers,
            capabilities,
            disk,
            reported.once(host_ip or ""),
            measured,
        )
    return found


class _NodeReport:
    """Parser of reports. Equal values are stored once, as most reports are equal; they are read-only, as plugins get
    them.
    """

    def __init__(self) -> None:
        self._by_text: dict[str, NodeReport] = {}
        self._alike: dict[Any, Any] = {}

    def of(self, report: str) -> NodeReport:
        known = self._by_text.get(report)
        if known is None:
            known = self._read(json.loads(report) or {})
            if len(self._by_text) < TEXTS_KEPT:
                self._by_text[report] = known
        return known

    def once(self, value: Any) -> Any:
        return self._alike.setdefault(value, value)

    def _read(self, report: Mapping[str, Any]) -> NodeReport:
        capabilities = {**report.get("capabilities", {}), "cpu_info": report.get("cpu_info", {})}
        key = repr(capabilities)
        if key not in self._alike:
            self._alike[key] = frozen(capabilities)
        offers = tuple((arch, kind, mode) for arch, kind, mode in report.get("supported_instances", ()))
        measured = frozen(metrics.kept(report.get("metrics") or {})) or NOTHING
        return self.once(offers), self._alike[key], report.get("disk_available_least_gb"), measured
