"""Kinds of errors that end requests, by the names that readers of case files know."""

from __future__ import annotations

import re
from collections.abc import Mapping

from conductor.core.errors import NovellaError

# Error texts and their kinds. The first match counts.
KINDS: tuple[tuple[str, str], ...] = (
    (r"(image property |hints\.)", "ValueError"),
    (r"hw:tpm_secret_security: .* is none of ", "NoValidHost"),
    (
        r"hw_(virtio_packed_ring|\w*encryption|sound_model): the image says ",
        "FlavorImageConflict",
    ),
    (r"hw:cpu_thread_policy: it needs ", "CPUThreadPolicyConfigurationInvalid"),
    (r"hw:cpu_thread_policy: the trait ", "InvalidRequest"),
    (r"hw_cpu_policy: the image says ", "ImageCPUPinningForbidden"),
    (r"hw_cpu_thread_policy: the image says ", "ImageCPUThreadPolicyForbidden"),
    (r"hw_?:?cpu_policy: .* is none of ", "InvalidCPUAllocationPolicy"),
    (r'hw:cpu_thread_policy: "" is none of ', "ValueError"),
    (r"hw_?:?cpu_thread_policy: .* is none of ", "InvalidCPUThreadAllocationPolicy"),
    (r"hw:emulator_threads_policy: it needs ", "BadRequirementEmulatorThreadsPolicy"),
    (r"hw:emulator_threads_policy: .* is none of ", "InvalidEmulatorThreadsPolicy"),
    (r"hw:cpu_dedicated_mask: name some ", "InvalidMixedInstanceDedicatedMask"),
    (r"hw:cpu_dedicated_mask: it needs ", "RequiredMixedInstancePolicy"),
    (r"hw:cpu_dedicated_mask: .* not both", "RequiredMixedOrRealtimeCPUMask"),
    (r"hw:cpu_realtime: it needs ", "RealtimeConfigurationInvalid"),
    (r"hw[:_]cpu_realtime_mask: (name at least|leave one) ", "RealtimeMaskNotFoundOrInvalid"),
    (r"hw[:_]numa_nodes: .* do not divide ", "ImageNUMATopologyAsymmetric"),
    (r"hw_numa_(nodes|cpus\.0|mem\.0): the flavor has ", "ImageNUMATopologyForbidden"),
    (r"hw[:_]numa_nodes: .* is not a number ", "InvalidNUMANodesNumber"),
    (r"hw:numa_cpus\.N and hw:numa_mem\.N: ", "ImageNUMATopologyIncomplete"),
    (r"hw:numa_cpus\.\d+: there is no CPU ", "ImageNUMATopologyCPUOutOfRange"),
    (r"hw:numa_cpus\.\d+: CPU .* in another cell ", "ImageNUMATopologyCPUDuplicates"),
    (r"hw:numa_cpus\.N: CPU .* is in no cell", "ImageNUMATopologyCPUsUnassigned"),
    (r"hw:numa_mem\.\d+: .* is not a whole number", "ValueError"),
    (r"hw:numa_mem\.N: the cells have ", "ImageNUMATopologyMemoryOutOfRange"),
    (r"hw_mem_page_size: the image ", "MemoryPageSizeForbidden"),
    (r"hw[:_]mem_page_size: .* is neither ", "MemoryPageSizeInvalid"),
    (r"hw[:_]locked_memory: set ", "LockMemoryForbidden"),
    (r"hw_locked_memory: the image says ", "FlavorImageLockedMemoryConflict"),
    (r"hw[:_]pci_numa_affinity_policy: .* is none of ", "InvalidPCINUMAAffinity"),
    (r"hw_pci_numa_affinity_policy: the image says ", "ImagePCINUMAPolicyForbidden"),
    (r"(resources:PCPU|hw:cpu_policy): ", "InvalidRequest"),
    (r"pci\.alias: ", "PciInvalidAlias"),
    (r"pci_passthrough:alias: there is no alias ", "PciRequestAliasNotDefined"),
    (r"pci_passthrough:alias: ", "ValueError"),
    (r"hw:mem_encryption: it needs a q35 ", "InvalidMachineType"),
    (r"hw:mem_encryption: it needs ", "FlavorImageConflict"),
    (r"image: it has no disk_format", "NotImplementedError"),
    (r"(hw_tpm_\w+|os_secure_boot): the image says ", "NotImplementedError"),
    (r"Placement refuses ", "TypeError"),
    (r"MetricsWeigher lacks ", "ComputeHostMetricNotFound"),
    (r"JsonFilter about .* there is no command ", "KeyError"),
    (r"JsonFilter about .* it is no JSON", "JSONDecodeError"),
    (r"JsonFilter about .* it asks for the inside ", "AttributeError"),
    (r"JsonFilter about ", "TypeError"),
    (r"ImagePropertiesFilter about ", "AttributeError"),
    (r"SimpleCIDRAffinityFilter about .* name no network: a list", "TypeError"),
    (r"SimpleCIDRAffinityFilter about (?!.*: (\d+(\.\d+){3}|[\da-f.]*:[\da-f.:]*)/[^/]*/)", "AddrFormatError"),
    (r"\w+ about .* the operator <or> has no operand", "IndexError"),
    (r"\w+ about ", "ValueError"),
)
_PATTERNS: Mapping[str, re.Pattern[str]] = {pattern: re.compile(pattern) for pattern, _ in KINDS}


def kind_of(error: NovellaError) -> str:
    """Return the error's kind; the name of its class where it has no other."""
    for pattern, kind in KINDS:
        if _PATTERNS[pattern].match(error.message):
            return kind
    return type(error).__name__
