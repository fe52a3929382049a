"""Workflow runs for their owners and operators: lists, logs, locks, events and interventions.

Execution of runs belongs to `conductor/workflows`.
"""
