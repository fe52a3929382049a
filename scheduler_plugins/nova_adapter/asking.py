"""Views of hosts and requests for classes of Nova: one per request, and a new one of a host for each call."""

from __future__ import annotations

import importlib
from typing import Any

from conductor.core.host_state import HostState
from conductor.core.request_spec import RequestSpec
from scheduler_plugins.nova_adapter.guests import VIEWS


class NovaViews:
    """Views for one plugin: changes by its class of Nova affect no other plugin."""

    def __init__(self) -> None:
        self._last: tuple[RequestSpec, Any] | None = None

    def request(self, spec: RequestSpec) -> Any:
        """Return the request as Nova has it."""
        last = self._last
        if last is None or last[0] is not spec:
            # Imported by name, as its module needs Nova, which may be missing until a class of Nova is used.
            made = importlib.import_module(f"{VIEWS}.request_view").RequestView(spec)
            self._last = last = (spec, made)
        return last[1]

    def host(self, state: HostState, request: Any) -> Any:
        """Return a host as Nova has it, new for each call: changes by the class are discarded."""
        return importlib.import_module(f"{VIEWS}.host_view").HostView(state, request)
