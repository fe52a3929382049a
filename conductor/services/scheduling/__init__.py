"""Scheduling decisions: stored ones, their replays, and hypothetical requests.

Choosing a host for a request belongs to `conductor/scheduler`.
"""
