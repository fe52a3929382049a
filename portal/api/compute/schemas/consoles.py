"""Bodies that request consoles, with the console types of each version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from portal.api.microversions import Microversion
from portal.api.schema_parts import Schema, closed, wrapped

MKS_SINCE, SPICE_DIRECT_SINCE = "2.8", "2.99"
PROTOCOLS = ("vnc", "spice", "rdp", "serial")
TYPES = ("novnc", "xvpvnc", "spice-html5", "rdp-html5", "serial")

# The actions from before 2.6, with the types that each accepts.
ACTIONS: Mapping[str, Schema] = {
    "os-getVNCConsole": closed({"type": {"enum": ["novnc", "xvpvnc"]}}, required=("type",)),
    "os-getSPICEConsole": closed({"type": {"enum": ["spice-html5"]}}, required=("type",)),
    "os-getRDPConsole": closed({"type": {"enum": ["rdp-html5"]}}, required=("type",)),
    "os-getSerialConsole": closed({"type": {"enum": ["serial"]}}, required=("type",)),
}


def remote_console(version: Microversion) -> Schema:
    """Return the body of POST remote-consoles."""
    return _remote_console(version.covers(MKS_SINCE), version.covers(SPICE_DIRECT_SINCE))


@cache
def _remote_console(has_mks: bool, has_spice_direct: bool) -> Schema:
    protocols, types = [*PROTOCOLS], [*TYPES]
    if has_mks:
        protocols, types = [*protocols, "mks"], [*types, "webmks"]
    if has_spice_direct:
        types = [*types, "spice-direct"]
    members: Schema = {"protocol": {"enum": protocols}, "type": {"enum": types}}
    return wrapped("remote_console", members, required=("protocol", "type"))
