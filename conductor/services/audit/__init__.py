"""The audit log: writing, reading and sealing its records.

The operation that makes a change decides whether it is audited.
"""
