"""The audit log: writing, reading and sealing its records.

Which change is audited is decided where the change is made.
"""
