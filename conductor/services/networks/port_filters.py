"""Sends security group rules to the hosts that apply them as port filters.

Each report of such a host contains a fingerprint of its rules. The answer has the rules where they differ. So a lost
message, or a host that was down, is corrected with the next report.
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
    """Send the host its rules, if it applies any and its own differ."""
    has = message.report.get("capabilities", {}).get(PORT_FILTERS)
    if has is None:
        return
    wanted = filters_of(message.host)
    if fingerprint(wanted) == has:
        return
    log.info("rules of ports sent: host=%s ports=%s", message.host, len(wanted))
    values = {port: found.to_json() for port, found in wanted.items()}
    broker.send_to_compute(broker.compute_queue(message.host), encode(FilterPorts(host=message.host, filters=values)))
