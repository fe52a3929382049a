"""Checks whether an instance may stay on its host with another image, by the filters that read images."""

from __future__ import annotations

import logging

from conductor.core.errors import NoValidHost
from conductor.core.plugin_choice import FILTER
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.filtering import timed_verdict
from conductor.core.scheduling.watching import Watch
from conductor.scheduler.active_plugins import pipeline
from conductor.scheduler.host_manager import host_manager

log = logging.getLogger(__name__)


def require_fit(spec: RequestSpec, host: str) -> None:
    """Raise NoValidHost with the filter's reason when `host` cannot run the request `spec`.

    Nothing is claimed, as the instance has its resources already. The rule for failing filters applies, as for builds.
    """
    table = host_manager.snapshot().table
    rows = table.rows_of([host])
    if not rows:
        raise NoValidHost(f"Host {host} is not known to the scheduler at this moment.")
    chain = pipeline()
    watch = Watch(chain.rules)
    for judge in chain.filters:
        use = watch.of(FILTER, judge)
        if not judge.runs_on_rebuild or use.is_shadow:
            continue
        try:
            verdict = timed_verdict(judge, table, spec, rows[0], watch)
        except Exception as error:
            fault = watch.fault(use, 1, error)
            log.error("plugin failed: kind=filter name=%s host=%s error=%s", judge.name, host, fault.error)
            if watch.lets_pass(use):
                continue
            raise NoValidHost(f"The filter {judge.name} failed.") from None
        if not verdict:
            raise NoValidHost(f"The server's host cannot run this image: {verdict.reason}.")
