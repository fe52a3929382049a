"""Operation of hosts: reports, drains, canary tests, evacuations and actions on a host.

Records of hosts, aggregates and zones, which other groups read, belong to `hosts`.
"""
