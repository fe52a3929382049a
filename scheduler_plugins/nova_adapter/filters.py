"""A filter of Nova as one of ours."""

from __future__ import annotations

from typing import Any

from conductor.core.filter import Filter
from conductor.core.host_state import HostState
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import PASS, Verdict, reject
from scheduler_plugins.nova_adapter.asking import Asking
from scheduler_plugins.nova_adapter.guests import Guest, Guests
from scheduler_plugins.nova_adapter.hearing import heard, last_of, listen_to


class NovaFilter(Filter):
    """Asks the guest host by host, so that only hosts that all filters before it let pass are made up for it."""

    guest: Guest
    reason: str

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self._asking = Asking()

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        guest = self.guest.require()
        request = self._asking.request(spec)
        with heard() as lines:
            if list(guest.filter_all([self._asking.host(host, request)], request.spec)):
                return PASS
        return reject(self.reason, need=self.guest.path, have=last_of(lines))


def filter_of(name: str, path: str, guests: Guests) -> type[NovaFilter]:
    """A class of ours for the class of Nova at `path`."""
    guest = guests.filter(path)
    if guest.made is not None:
        listen_to(type(guest.made))
    called = path.rpartition(".")[2]
    values = {
        "__doc__": f"The filter {path} of Nova.",
        "__module__": path.rpartition(".")[0],  # foreign code: it is held to its time
        "name": name,
        "guest": guest,
        "trouble": guest.trouble,
        "reason": f"the filter {called} turns the host away",
        "runs_once_per_request": bool(getattr(guest.made, "run_filter_once_per_request", False)),
        "runs_on_rebuild": bool(getattr(guest.made, "RUN_ON_REBUILD", False)) or bool(guest.trouble),
    }
    return type(called, (NovaFilter,), values)
