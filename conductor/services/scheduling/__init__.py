"""Scheduling decisions: stored ones, their replays, and what-if questions.

Choosing a host for a request belongs to `conductor/scheduler`.
"""
