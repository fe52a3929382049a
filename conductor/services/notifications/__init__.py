"""Notifications: subscriptions, their targets, and delivery of events to sinks.

The event log belongs to `conductor/events.py`, live pages to `portal/live`.
"""
