"""Errors of the projection into OVN."""

from __future__ import annotations


class DatabaseUnavailable(Exception):
    """A database of OVN does not answer, or refuses the write. The write may have been carried out nevertheless."""
