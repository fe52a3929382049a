"""Hosts and requests as guests see them: each request is made up once, each host when it is asked about."""

from __future__ import annotations

import importlib
from typing import Any

from conductor.core.host_state import HostState
from conductor.core.request_spec import RequestSpec
from scheduler_plugins.nova_adapter.guests import VIEWS


class Asking:
    """One for each plugin: what a guest does to a request reaches nobody else."""

    def __init__(self) -> None:
        self._last: tuple[RequestSpec, Any] | None = None

    def request(self, spec: RequestSpec) -> Any:
        """The request as Nova has it."""
        last = self._last
        if last is None or last[0] is not spec:
            # By name, as its module needs Nova, which need not be there before somebody is asked.
            made = importlib.import_module(f"{VIEWS}.request_view").RequestView(spec)
            self._last = last = (spec, made)
        return last[1]

    def host(self, state: HostState, request: Any) -> Any:
        """A host as Nova has it, new for each question: what a guest writes into it is gone afterwards."""
        return importlib.import_module(f"{VIEWS}.host_view").HostView(state, request)
