"""Operation of the whole cloud: health, triage, reconciliation, pruning and announcements.

Actions on one host belong to `fleet`, on one cell to `cells`, on one run to `workflows`.
"""
