"""Hardware requirements from a flavor's extra specs and an image's properties.

The flavor has `hw:key`, the image `hw_key`. Where both are set, each requirement has its own rule of precedence;
a contradiction is Invalid, and the error names the key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from conductor.core.errors import Invalid
from conductor.core.hardware import cpu_sets
from conductor.core.hardware.request import (
    ANY,
    CPU_POLICIES,
    DEDICATED,
    EMULATOR_POLICIES,
    ISOLATE,
    LARGE,
    MIXED,
    PCI_POLICIES,
    PREFER,
    REQUIRE,
    SHARED,
    SMALL,
    THREAD_POLICIES,
)

T = TypeVar("T")
MOST_CELLS = 128
TRUE_WORDS = frozenset({"1", "t", "true", "on", "y", "yes"})
PAGE_KINDS = {"any": ANY, "large": LARGE, "small": SMALL}
SIZE = re.compile(r"([-+]?[0-9]*\.?[0-9]+)(?:([KMGTPE])i?)?(b|bit|B)")
EXPONENTS = {None: 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
GROUPED_CPUS = re.compile(r"resources(?:[1-9][0-9]*)?:(VCPU|PCPU)")
THREADS_TRAIT = "HW_CPU_HYPERTHREADING"
GROUPED_THREADS_TRAIT = re.compile(rf"trait(?:[1-9][0-9]*)?:{THREADS_TRAIT}")


class HardwareFlavor(Protocol):
    """The fields of a flavor that are read here."""

    @property
    def vcpus(self) -> int: ...
    @property
    def memory_mb(self) -> int: ...
    @property
    def extra_specs(self) -> Mapping[str, str]: ...


class HardwareRequirements:
    """The hardware requirements of one flavor and one image."""

    def __init__(self, flavor: HardwareFlavor, properties: Mapping[str, Any]) -> None:
        self.flavor = flavor
        self.extra_specs = flavor.extra_specs
        self.properties = properties

    def both(self, key: str) -> tuple[str | None, str | None]:
        """Return the values of flavor and image as texts; None where one has none."""
        wanted, offered = self.extra_specs.get(f"hw:{key}"), self.properties.get(f"hw_{key}")
        return None if wanted is None else str(wanted), None if offered is None else str(offered)

    def cpu_policy(self) -> str | None:
        """Return the flavor's policy, or else the image's. An image may not ask for more than the flavor gives."""
        wanted, offered = self._chosen("cpu_policy", CPU_POLICIES)
        too_much = {MIXED: {DEDICATED}, SHARED: {MIXED, DEDICATED}}
        if offered in too_much.get(wanted or "", ()):
            raise _conflict("cpu_policy", wanted, offered)
        return wanted or offered

    def thread_policy(self) -> str | None:
        """Return the flavor's policy, or else the image's. The image's is ignored where the flavor has `prefer`."""
        wanted, offered = self._chosen("cpu_thread_policy", THREAD_POLICIES)
        reported = self.extra_specs.get("hw:cpu_thread_policy")
        if reported not in (None, PREFER) and offered and offered != reported:
            raise _conflict("cpu_thread_policy", reported, offered)
        return wanted or offered

    def check_thread_policy(self) -> None:
        """Raise Invalid for an unknown thread policy of the flavor, or an empty one; for guests with cells."""
        _one_of(self.extra_specs.get("hw:cpu_thread_policy"), THREAD_POLICIES, "hw:cpu_thread_policy")

    def pci_policy(self) -> str | None:
        wanted, offered = self.both("pci_numa_affinity_policy")
        if wanted and offered and wanted != offered:
            raise _conflict("pci_numa_affinity_policy", wanted, offered)
        wanted, offered = self._chosen("pci_numa_affinity_policy", PCI_POLICIES)
        return wanted or offered

    def emulator_policy(self) -> str | None:
        wanted = self.extra_specs.get("hw:emulator_threads_policy") or None
        return _one_of(wanted, EMULATOR_POLICIES, "hw:emulator_threads_policy")

    def realtime_cpus(self) -> frozenset[int]:
        """Return the guest CPUs that run in real time. At least one CPU is left over, unless the emulator has its
        own.
        """
        if not is_true(self.extra_specs.get("hw:cpu_realtime")):
            return frozenset()
        wanted, offered = self.both("cpu_realtime_mask")
        key, mask = ("hw_cpu_realtime_mask", offered) if offered else ("hw:cpu_realtime_mask", wanted)
        everything = frozenset(range(self.flavor.vcpus))
        cpus = cpu_sets.parse_mask(mask, self.flavor.vcpus, key=key) if mask else everything
        if not cpus or not cpus <= everything:
            raise Invalid(f"{key}: name at least one of the flavor's {self.flavor.vcpus} CPUs, and none besides.")
        if cpus == everything and not self.emulator_policy():
            raise Invalid(f"{key}: leave one CPU out for everything else, or set hw:emulator_threads_policy.")
        return cpus

    def dedicated_cpus(self) -> frozenset[int]:
        mask = self.extra_specs.get("hw:cpu_dedicated_mask")
        if not mask:
            return frozenset()
        key = "hw:cpu_dedicated_mask"
        everything = frozenset(range(self.flavor.vcpus))
        cpus = cpu_sets.parse_mask(mask, self.flavor.vcpus, key=key)
        if not cpus or not everything - cpus or not cpus <= everything:
            raise Invalid(f"{key}: name some of the flavor's {self.flavor.vcpus} CPUs, but not all, and none besides.")
        return cpus

    def cells(self) -> int | None:
        wanted, offered = self.both("numa_nodes")
        if wanted and offered and offered.strip() != "0":
            raise Invalid("hw_numa_nodes: the flavor has hw:numa_nodes, so the image may not set it.")
        key, value = ("hw:numa_nodes", wanted) if wanted else ("hw_numa_nodes", offered)
        if value is None:
            return None
        if not re.fullmatch(r"[1-9][0-9]{0,8}", value):
            raise Invalid(f'{key}: "{value}" is not a number of NUMA cells; 1 or more is.')
        return int(value)

    def page_size(self) -> int | None:
        """Return the page size in KiB, or a kind. The image may narrow a flavor's `any` or `large`."""
        wanted, offered = (value or None for value in self.both("mem_page_size"))
        if offered and not wanted:
            raise Invalid("hw_mem_page_size: the image may set it only where the flavor has hw:mem_page_size.")
        if not wanted:
            return None
        size = _page_size(wanted, "hw:mem_page_size")
        if offered and size not in (ANY, LARGE):
            raise _conflict("mem_page_size", wanted, offered)
        return _page_size(offered, "hw_mem_page_size") if offered else size

    def check_locked_memory(self) -> None:
        """Raise Invalid for locked memory without a page size: the page size says which memory to lock."""
        wanted, offered = self.both("locked_memory")
        if wanted is not None and offered is not None and is_true(wanted) != is_true(offered):
            raise _conflict("locked_memory", wanted, offered)
        locks = is_true(offered if wanted is None else wanted)
        if locks and not any(self.both("mem_page_size")):
            key = "hw_locked_memory" if wanted is None else "hw:locked_memory"
            raise Invalid(f"{key}: set hw:mem_page_size too.")

    def cell_cpus(self) -> list[frozenset[int]] | None:
        return self._per_cell("numa_cpus", lambda value, key: cpu_sets.parse(value, key=key))

    def cell_memory(self) -> list[int] | None:
        return self._per_cell("numa_mem", _integer)

    def grouped_cpus(self) -> tuple[int, int]:
        """Return the numbers of vCPUs and pinned CPUs that the extra specs `resources:VCPU` and `resources:PCPU`
        request.
        """
        found = {"VCPU": 0, "PCPU": 0}
        for key, value in self.extra_specs.items():
            match = GROUPED_CPUS.match(key)
            if match and re.fullmatch(r"\s*[-+]?[0-9]+\s*", str(value)):
                found[match[1]] += int(value)
        return found["VCPU"], found["PCPU"]

    def threads_trait(self) -> str | None:
        """Return `required`, `forbidden` or None for the trait of hardware threads."""
        for key, value in self.extra_specs.items():
            if GROUPED_THREADS_TRAIT.match(key):
                return value
        is_required = self.properties.get(f"trait:{THREADS_TRAIT}") == "required"
        return "required" if is_required else None

    def has_persistent_memory(self) -> bool:
        return any(label.strip() for label in self.extra_specs.get("hw:pmem", "").split(","))

    def _chosen(self, key: str, values: Iterable[str]) -> tuple[str | None, str | None]:
        wanted, offered = self.both(key)
        return _one_of(wanted or None, values, f"hw:{key}"), _one_of(offered or None, values, f"hw_{key}")

    def _per_cell(self, key: str, read: Callable[[str, str], T]) -> list[T] | None:
        wanted = _numbered(self.extra_specs, f"hw:{key}", read)
        offered = _numbered(self.properties, f"hw_{key}", read)
        if wanted is not None and offered is not None:
            raise Invalid(f"hw_{key}.0: the flavor has hw:{key}.0, so the image may not set it.")
        return offered if wanted is None else wanted


def thread_policy_of_trait(trait: str | None, policy: str | None) -> str | None:
    """Return the policy, or the one that the trait stands for. Raises Invalid where both are set."""
    if policy and trait:
        raise Invalid(f"hw:cpu_thread_policy: the trait {THREADS_TRAIT} is asked for too; use one of them.")
    return {"forbidden": ISOLATE, "required": REQUIRE}.get(trait or "", policy)


def is_true(value: object) -> bool:
    return value is True or str(value).strip().lower() in TRUE_WORDS


def _numbered(values: Mapping[str, Any], key: str, read: Callable[[str, str], T]) -> list[T] | None:
    """Return the values under `key.0`, `key.1` and so on, up to the first gap."""
    found: list[T] = []
    for number in range(MOST_CELLS):
        name = f"{key}.{number}"
        if name not in values:
            break
        found.append(read(str(values[name]), name))
    return found or None


def _page_size(text: str, key: str) -> int:
    if text in PAGE_KINDS:
        return PAGE_KINDS[text]
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    match = SIZE.fullmatch(text)
    if not match:
        raise Invalid(f'{key}: "{text}" is neither small, large, any, a number of KiB nor a size such as 2MB.')
    size: float = float(match[1]) * 1024 ** EXPONENTS[match[2]] / (1 if match[3] == "B" else 8)
    return math.ceil(size) // 1024


def _integer(value: object, key: str) -> int:
    if not re.fullmatch(r"\s*[-+]?[0-9]{1,18}\s*", str(value)):
        raise Invalid(f'{key}: "{value}" is not a whole number.')
    return int(str(value))


def _one_of(value: str | None, values: Iterable[str], key: str) -> str | None:
    if value is not None and value not in values:
        raise Invalid(f'{key}: "{value}" is none of {", ".join(values)}.')
    return value


def _conflict(key: str, wanted: str | None, offered: str | None) -> Invalid:
    return Invalid(f'hw_{key}: the image says "{offered}", which contradicts "{wanted}" in the flavor\'s hw:{key}.')
