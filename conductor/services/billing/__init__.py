"""Usage, costs and budgets of projects.

Limits, which refuse requests, belong to `quotas`.
"""
