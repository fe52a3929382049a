"""Moves of servers: resizes, cold and live migrations, and interventions in them.

Evacuations and drains, which begin at a host, belong to `fleet`.
"""
