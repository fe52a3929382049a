"""Limits of projects and users: settings, usage, checks, and requests for more.

Budgets in money belong to `billing`.
"""
