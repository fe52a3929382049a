"""Names and addresses in OVN that the projection of networks and the hosts agree on.

A port of a guest has the port's id as its name, and a host's chassis the host's name.
"""

from __future__ import annotations

# Of the metadata service in every network.
METADATA_MAC = "02:6e:76:6d:64:01"


def metadata_port_name(network_uuid: str) -> str:
    """Return the name of the port behind which each host answers requests for metadata."""
    return f"metadata-{network_uuid}"
