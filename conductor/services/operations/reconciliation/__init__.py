"""Reconciliation: finds discrepancies between databases and hosts, and repairs those that are safe to repair."""
