"""Amounts as people read them."""

from __future__ import annotations


def megabytes(amount: float) -> str:
    """512 MB, 1100 MB, 1.5 GB, 23.54 GB."""
    if amount >= 10_240:
        return f"{amount / 1024:.4g} GB"
    return f"{amount / 1024:g} GB" if amount >= 1024 and (amount * 2) % 1024 == 0 else f"{amount:g} MB"


def large_megabytes(amount: float) -> str:
    """As above, and 12.5 TB for what whole fleets have."""
    return f"{amount / 1_048_576:,.1f} TB" if amount >= 1_048_576 else megabytes(amount)
