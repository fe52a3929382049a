"""CPU topology of guests: sockets, cores and threads."""

from __future__ import annotations

import re

from conductor.core.errors import Invalid
from conductor.core.hardware.constraints import HardwareRequirements
from conductor.core.hardware.request import CpuTopology

PARTS = ("sockets", "cores", "threads")
UNLIMITED = 65536


def best_topology(requirements: HardwareRequirements) -> CpuTopology:
    """Return the topology that agrees most with the preference; ties go to more cores, then to more sockets.

    Raises Invalid where no topology within the limits has exactly the flavor's CPUs.
    """
    preferred, most = limits_of(requirements)
    possible = _possible(requirements.flavor.vcpus, most)
    if not possible:
        raise Invalid(
            f"hw:cpu_max_sockets, hw:cpu_max_cores and hw:cpu_max_threads: {requirements.flavor.vcpus} CPUs "
            "cannot be had"
            f" of at most {most.sockets} sockets, {most.cores} cores and {most.threads} threads."
        )
    return min(possible, key=lambda one: (-_matching(one, preferred), *_order(one)))


def limits_of(requirements: HardwareRequirements) -> tuple[CpuTopology, CpuTopology]:
    """Return the preferred and the maximum topology. An image may lower the flavor's limits, never raise them."""
    flavor_most, image_most = _read(requirements, "cpu_max_")
    for part, mine, theirs in zip(PARTS, flavor_most, image_most, strict=True):
        if mine and theirs > mine:
            raise Invalid(f"hw_cpu_max_{part}: {theirs} is more than the flavor's {mine}.")
    most = [theirs or mine or UNLIMITED for mine, theirs in zip(flavor_most, image_most, strict=True)]
    wanted, offered = _read(requirements, "cpu_")
    for part, theirs, limit in zip(PARTS, offered, most, strict=True):
        if theirs > limit:
            raise Invalid(f"hw_cpu_{part}: {theirs} is more than the {limit} that are allowed.")
    if any(mine > limit for mine, limit in zip(wanted, most, strict=True)):
        wanted = [0, 0, 0]  # the image's limits exclude the flavor's preference
    return CpuTopology(*(offered if any(offered) else wanted)), CpuTopology(*most)


def _read(requirements: HardwareRequirements, prefix: str) -> tuple[list[int], list[int]]:
    pairs = [requirements.both(prefix + part) for part in PARTS]
    flavor = [_number(pair[0], f"hw:{prefix}{part}") for part, pair in zip(PARTS, pairs, strict=True)]
    image = [_number(pair[1], f"hw_{prefix}{part}") for part, pair in zip(PARTS, pairs, strict=True)]
    return flavor, image


def _number(value: str | None, key: str) -> int:
    if value is None:
        return 0
    if not re.fullmatch(r"\s*[-+]?[0-9]{1,18}\s*", value):
        raise Invalid(f'{key}: "{value}" is not a whole number.')
    return int(value)


def _possible(vcpus: int, most: CpuTopology) -> list[CpuTopology]:
    divisors = [number for number in range(1, vcpus + 1) if not vcpus % number]
    return [
        CpuTopology(sockets, cores, vcpus // sockets // cores)
        for sockets in divisors
        for cores in divisors
        if not (vcpus // sockets) % cores
        and sockets <= most.sockets
        and cores <= most.cores
        and vcpus // sockets // cores <= most.threads
    ]


def _matching(one: CpuTopology, preferred: CpuTopology) -> int:
    pairs = ((one.sockets, preferred.sockets), (one.cores, preferred.cores), (one.threads, preferred.threads))
    return sum(wanted > 0 and has == wanted for has, wanted in pairs)


def _order(one: CpuTopology) -> tuple[int, int, int]:
    return -one.sockets * one.cores, -one.sockets, -one.threads
