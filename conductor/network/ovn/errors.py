"""Errors of the projection into OVN."""

from __future__ import annotations


class DatabaseUnavailable(Exception):
    """A database of OVN does not answer, or refuses the write; it may have been written all the same."""
