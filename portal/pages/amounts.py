"""Amounts for display: in the language of the page, with its thousands and decimal separators."""

from __future__ import annotations

import re

from django.utils.formats import number_format

from conductor.core.messages import message

BYTES = (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10))
WHOLE = re.compile(r"-?[0-9]{1,30}")
LARGEST = 2**31 - 1  # the maximum in all of the APIs
CLASS_WORDS = {"VCPU": "vCPU", "MEMORY_MB": "Memory", "DISK_GB": "Disk"}


def whole(amount: float) -> str:
    """4,096, or 4.096 in German."""
    return str(number_format(round(amount), force_grouping=True))


def decimal(amount: float, places: int = 1) -> str:
    """1,234.5, with the given decimal places."""
    return str(number_format(f"{amount:.{places}f}", places, force_grouping=True))


def short(amount: float, digits: int = 4) -> str:
    """23.54, 392.8, 1.5, 500: at most so many significant digits."""
    text = f"{amount:.{digits}g}"
    if "e" in text:
        return whole(amount)
    return decimal(amount, len(text.partition(".")[2]))


def megabytes(amount: float) -> str:
    """512 MB, 1,100 MB, 1.5 GB, 23.54 GB."""
    if amount >= 10_240 or (amount >= 1024 and (amount * 2) % 1024 == 0):
        return f"{short(amount / 1024)} GB"
    return f"{short(amount, 6)} MB"


def large_megabytes(amount: float) -> str:
    """Format megabytes as `megabytes` does, and as 12.5 TB for whole fleets."""
    return f"{decimal(amount / 1_048_576)} TB" if amount >= 1_048_576 else megabytes(amount)


def size(amount: float) -> str:
    """Bytes in the unit that is common for images."""
    for unit, step in BYTES:
        if amount >= step:
            return f"{decimal(amount / step)} {unit}"
    return f"{whole(amount)} B"


def number_fault(typed: str, least: int | None = None, most: int | None = None) -> str:
    """Return which numbers are accepted; empty if the text is a whole number within the bounds."""
    number, largest = int(typed) if WHOLE.fullmatch(typed) else None, most or LARGEST
    if number is not None and (least is None or number >= least) and number <= largest:
        return ""
    if least is None:
        return message("invalid.whole")
    if most or (number is not None and number > largest):
        return message("invalid.whole_range", least=least, most=largest)
    return message("invalid.whole_least", least=least)
