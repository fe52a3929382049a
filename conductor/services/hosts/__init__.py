"""Records of hosts: services, hypervisors, aggregates, zones and keys.

What acts on a host and its servers belongs to `fleet`.
"""
