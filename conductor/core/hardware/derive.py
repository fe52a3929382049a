"""Derives a guest's hardware request from its flavor and image: NUMA cells, pinned CPUs, pages, PCI devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar

from conductor.core.errors import Invalid
from conductor.core.hardware import guest_cpus, pci_aliases
from conductor.core.hardware.constraints import HardwareFlavor, HardwareRequirements, thread_policy_of_trait
from conductor.core.hardware.request import DEDICATED, ISOLATE, MIXED, SHARED, InstanceCell, InstanceTopology


class ImageFacts(Protocol):
    @property
    def properties(self) -> Mapping[str, Any]: ...


class Request(Protocol):
    """Protocol of a request specification; the dataclass itself is in a higher layer."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def flavor(self) -> HardwareFlavor: ...
    @property
    def image(self) -> ImageFacts: ...


S = TypeVar("S", bound=Request)


@dataclass(frozen=True, slots=True)
class _Policies:
    cpu: str | None
    threads: str | None
    emulator: str | None
    dedicated: frozenset[int]  # guest CPUs


def with_hardware(spec: S, options: Mapping[str, Any]) -> S:
    """Return the request with `numa` and `pci_requests` as its flavor and image ask. `options` may have `pci.alias`.

    Raises Invalid naming the key that cannot be read, that contradicts another, or that asks for too much.
    """
    requirements = HardwareRequirements(spec.flavor, spec.image.properties)
    changes: dict[str, Any] = {
        "numa": topology_of(requirements),
        "pci_requests": pci_aliases.requests_of(
            requirements, requirements.pci_policy(), options.get(pci_aliases.OPTION)
        ),
    }
    return replace(spec, **changes)


def check(flavor: HardwareFlavor, properties: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise Invalid, naming the key, where a flavor and an image contradict each other."""
    requirements = HardwareRequirements(flavor, properties)
    guest_cpus.limits_of(requirements)
    topology_of(requirements)
    pci_aliases.requests_of(requirements, requirements.pci_policy(), options.get(pci_aliases.OPTION))


def topology_of(requirements: HardwareRequirements) -> InstanceTopology | None:
    """Return the guest's cells; None where no requirement needs any. Raises Invalid."""
    policies = _policies(requirements)
    nodes = requirements.cells()
    page_size = requirements.page_size()
    requirements.check_locked_memory()
    is_pinned = policies.cpu in (DEDICATED, MIXED)
    if not (nodes or page_size or is_pinned or requirements.has_persistent_memory()):
        return None
    requirements.check_thread_policy()
    cells = tuple(
        InstanceCell(
            id=number,
            cpus=cpus - policies.dedicated,
            pcpus=cpus & policies.dedicated,
            memory_mb=memory_mb,
            page_size_kb=page_size,
            cpu_policy=policies.cpu,
            thread_policy=policies.threads,
        )
        for number, (cpus, memory_mb) in enumerate(_shares(requirements, nodes or 1))
    )
    return InstanceTopology(cells, policies.emulator)


def _policies(requirements: HardwareRequirements) -> _Policies:
    cpu = requirements.cpu_policy()
    threads = requirements.thread_policy()
    realtime = requirements.realtime_cpus()
    dedicated = requirements.dedicated_cpus()
    emulator = requirements.emulator_policy()
    cpu = _with_grouped(cpu, emulator, requirements)
    threads = thread_policy_of_trait(requirements.threads_trait(), threads)
    if cpu in (SHARED, None):
        _refuse_unpinned({"hw:cpu_thread_policy": threads, "hw:emulator_threads_policy": emulator == ISOLATE})
    if cpu != MIXED and dedicated:
        raise Invalid("hw:cpu_dedicated_mask: it needs hw:cpu_policy=mixed.")
    if cpu in (SHARED, None):
        _refuse_unpinned({"hw:cpu_realtime": realtime})
    if cpu == MIXED and bool(realtime) == bool(dedicated):
        raise Invalid("hw:cpu_dedicated_mask: hw:cpu_policy=mixed needs it or hw:cpu_realtime_mask, not both.")
    if cpu == MIXED:
        dedicated = dedicated or realtime
    if cpu == DEDICATED:
        dedicated = frozenset(range(requirements.flavor.vcpus))
    return _Policies(cpu, threads, emulator, dedicated)


def _with_grouped(cpu: str | None, emulator: str | None, requirements: HardwareRequirements) -> str | None:
    """Return the CPU policy, or the one that `resources:VCPU` and `resources:PCPU` stand for."""
    vcpus, pcpus = requirements.grouped_cpus()
    if cpu and (vcpus or pcpus):
        raise Invalid("hw:cpu_policy: resources:VCPU and resources:PCPU say it already; use one of them.")
    if vcpus and pcpus:
        raise Invalid("resources:PCPU: it cannot be had together with resources:VCPU.")
    needed = requirements.flavor.vcpus + (emulator == ISOLATE)
    if pcpus and pcpus != needed:
        raise Invalid(f"resources:PCPU: {pcpus} does not match the flavor, which needs {needed}.")
    return DEDICATED if pcpus else SHARED if vcpus else cpu


def _refuse_unpinned(needy: Mapping[str, object]) -> None:
    """Raise Invalid for requirements that only pinned CPUs can have."""
    for key, is_wanted in needy.items():
        if is_wanted:
            raise Invalid(f"{key}: it needs hw:cpu_policy=dedicated or mixed.")


def _shares(requirements: HardwareRequirements, nodes: int) -> list[tuple[frozenset[int], int]]:
    """Return CPUs and memory of each cell: as they are listed, or else in equal parts."""
    flavor = requirements.flavor
    cpus, memory = requirements.cell_cpus(), requirements.cell_memory()
    if cpus is None and memory is None:
        if flavor.vcpus % nodes or flavor.memory_mb % nodes:
            raise Invalid(f"hw:numa_nodes: {nodes} do not divide the flavor's CPUs and memory; list each cell's.")
        each = flavor.vcpus // nodes
        return [(frozenset(range(n * each, (n + 1) * each)), flavor.memory_mb // nodes) for n in range(nodes)]
    if cpus is None or memory is None or len(cpus) != nodes or len(memory) != nodes:
        raise Invalid(f"hw:numa_cpus.N and hw:numa_mem.N: give both for each of the {nodes} cells, or neither.")
    _refuse_uneven(cpus, memory, flavor)
    return list(zip(cpus, memory, strict=True))


def _refuse_uneven(cpus: list[frozenset[int]], memory: list[int], flavor: HardwareFlavor) -> None:
    seen: set[int] = set()
    for number, wanted in enumerate(cpus):
        if wanted and max(wanted) >= flavor.vcpus:
            raise Invalid(f"hw:numa_cpus.{number}: there is no CPU {max(wanted)}, the last is {flavor.vcpus - 1}.")
        if wanted & seen:
            raise Invalid(f"hw:numa_cpus.{number}: CPU {min(wanted & seen)} is in another cell already.")
        seen |= wanted
    if len(seen) < flavor.vcpus:
        raise Invalid(f"hw:numa_cpus.N: CPU {min(set(range(flavor.vcpus)) - seen)} is in no cell.")
    if sum(memory) != flavor.memory_mb:
        raise Invalid(f"hw:numa_mem.N: the cells have {sum(memory)} MB, the flavor {flavor.memory_mb} MB.")
