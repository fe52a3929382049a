"""Parses and formats sets of CPUs, such as `0-3,^2,8`."""

from __future__ import annotations

from conductor.core.errors import Invalid

MOST_CPUS = 1 << 16  # a longer range is probably a mistake, and would take too much memory


def parse(text: str, *, key: str) -> frozenset[int]:
    """Parse a set of CPUs: numbers and ranges, without those after a `^`. Raises Invalid, which names `key`."""
    wanted: set[int] = set()
    unwanted: set[int] = set()
    for part in (part.strip() for part in text.split(",")):
        if part:
            (unwanted if part.startswith("^") else wanted).update(_range(part.removeprefix("^"), text, key))
    return frozenset(wanted - unwanted)


def parse_mask(text: str, vcpus: int, *, key: str) -> frozenset[int]:
    """Parse a set of CPUs. A text that begins with `^` is subtracted from all CPUs of the guest."""
    return parse(f"0-{vcpus - 1},{text}" if text.strip().startswith("^") else text, key=key)


def show(cpus: frozenset[int]) -> str:
    """Return the shortest text for a set: `0-3,8`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _range(part: str, text: str, key: str) -> range:
    first, is_range, last = part.partition("-")
    try:
        low = int(first)
        high = int(last) if is_range else low
    except ValueError:
        raise Invalid(f'{key}: "{text}" is not a set of CPUs such as 0-3,^2,8.') from None
    if not 0 <= low <= high < MOST_CPUS:
        raise Invalid(f'{key}: "{text}" has a range that is empty or too large.')
    return range(low, high + 1)
