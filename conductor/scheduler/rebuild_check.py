"""May an instance stay on its host with another image? Only the filters that look at images are asked."""

from __future__ import annotations

import logging

from conductor.core.errors import NoValidHost
from conductor.core.request_spec import RequestSpec
from conductor.plugins import registry
from conductor.scheduler.host_manager import host_manager

log = logging.getLogger(__name__)


def require_fit(spec: RequestSpec, host: str) -> None:
    """Raises NoValidHost with the filter's reason when `host` cannot run what `spec` asks for now.

    Nothing is claimed: the instance has its room there already. A filter that fails turns away, as it does for builds.
    """
    state = next((state for state in host_manager.snapshot().table.states if state.host == host), None)
    if state is None:
        raise NoValidHost(f"Host {host} is not known to the scheduler at this moment.")
    for judge in registry().filters:
        if not judge.runs_on_rebuild:
            continue
        try:
            verdict = judge.host_passes(state, spec)
        except Exception:
            log.exception("plugin failed: kind=filter name=%s host=%s", judge.name, host)
            raise NoValidHost(f"The filter {judge.name} failed.") from None
        if not verdict:
            raise NoValidHost(f"The server's host cannot run this image: {verdict.reason}.")
