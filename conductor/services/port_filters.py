"""Tells hosts that apply the rules of security groups what their ports let through.

Nobody has to remember to: each report of such a host says which rules it has, and is answered where they are others.
So a message that is lost, or a host that was away, is made good with the next report.
"""

from __future__ import annotations

import logging

from conductor.core.port_filters import PORT_FILTERS, fingerprint
from conductor.network.port_filtering import filters_of
from conductor.rpc import broker
from conductor.rpc.codec import encode
from conductor.rpc.messages import FilterPorts, HostReported

log = logging.getLogger(__name__)


def settle(message: HostReported) -> None:
    """Send the host its rules, if it applies some and has others."""
    has = message.report.get("capabilities", {}).get(PORT_FILTERS)
    if has is None:
        return
    wanted = filters_of(message.host)
    if fingerprint(wanted) == has:
        return
    log.info("rules of ports sent: host=%s ports=%s", message.host, len(wanted))
    told = {port: found.to_json() for port, found in wanted.items()}
    broker.tell_compute(broker.compute_queue(message.host), encode(FilterPorts(host=message.host, filters=told)))
