"""Adapter that runs a filter of Nova as one of Novella's."""

from __future__ import annotations

from typing import Any

from conductor.core.filter import Filter
from conductor.core.host_state import HostState
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import PASS, Verdict, reject
from scheduler_plugins.nova_adapter.asking import NovaViews
from scheduler_plugins.nova_adapter.guests import Guests, NovaObject
from scheduler_plugins.nova_adapter.hearing import heard, last_of, listen_to


class NovaFilter(Filter):
    """Runs Nova's filter host by host, so that views are made only for hosts that passed all filters before it."""

    guest: NovaObject
    reason: str

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self._asking = NovaViews()

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        guest = self.guest.require()
        request = self._asking.request(spec)
        with heard() as lines:
            if list(guest.filter_all([self._asking.host(host, request)], request.spec)):
                return PASS
        return reject(self.reason, need=self.guest.path, have=last_of(lines))


def filter_of(name: str, path: str, guests: Guests) -> type[NovaFilter]:
    """Return an adapter class for the class of Nova at `path`."""
    guest = guests.filter(path)
    if guest.made is not None:
        listen_to(type(guest.made))
    called = path.rpartition(".")[2]
    values = {
        "__doc__": f"The filter {path} of Nova.",
        "__module__": path.rpartition(".")[0],  # foreign code: it has a time limit
        "name": name,
        "guest": guest,
        "trouble": guest.trouble,
        "reason": f"the filter {called} turns the host away",
        "runs_once_per_request": bool(getattr(guest.made, "run_filter_once_per_request", False)),
        "runs_on_rebuild": bool(getattr(guest.made, "RUN_ON_REBUILD", False)) or bool(guest.trouble),
    }
    return type(called, (NovaFilter,), values)
