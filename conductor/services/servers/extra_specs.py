"""Validation of extra specs: names and values of known namespaces. Other namespaces are not checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import os_resource_classes
import os_traits

from conductor.core.errors import Invalid
from conductor.core.extra_spec_operators import fault_of
from conductor.core.scheduling.hints import (
    ADDRESS_HINT,
    DEFAULT_LENGTH,
    LENGTH_HINT,
    QUERY_HINT,
    network_of,
    query_fault,
)

COMPARED = ("capabilities:", "aggregate_instance_extra_specs:")
NUMBER = r"\d{1,10}"
COUNT = r"[1-9]\d{0,9}"
BOOLEAN = r"(?i:true|false|yes|no|1|0|on|off|t|f|y|n)"
ANYTHING = r".*"


def _one_of(standard: Iterable[str]) -> str:
    """Return a pattern for standard names and custom ones."""
    return f"({'|'.join(standard)}|CUSTOM_[A-Z0-9_]{{1,248}})"


# Key pattern → value pattern, by the part of the key before the first colon (or dot, for hw_video and similar keys).
RULES: Mapping[str, Mapping[str, str]] = {
    "hw": {
        "hw:cpu_policy": "dedicated|shared|mixed",
        "hw:cpu_thread_policy": "prefer|isolate|require",
        "hw:emulator_threads_policy": "isolate|share",
        "hw:cpu_(sockets|cores|threads|max_sockets|max_cores|max_threads)": COUNT,
        "hw:cpu_realtime": BOOLEAN,
        "hw:cpu_realtime_mask": r"[\^]?\d+([-,^\d]*)",
        "hw:cpu_dedicated_mask": r"[\^]?\d+([-,^\d]*)",
        "hw:numa_nodes": r"[1-9]\d*",
        r"hw:numa_cpus\.\d+": r"\d+([-,^\d]*)",
        r"hw:numa_mem\.\d+": COUNT,
        "hw:pci_numa_affinity_policy": "required|preferred|legacy|socket",
        "hw:mem_page_size": r"large|small|any|\d+([kKMGT]i?[bB]?)?",
        "hw:mem_encryption_model": "amd-sev|amd-sev-es",
        "hw:(mem_encryption|boot_menu|vif_multiqueue_enabled|locked_memory|hide_hypervisor_id|pmu)": BOOLEAN,
        "hw:(virtio_packed_ring|ephemeral_encryption)": BOOLEAN,
        "hw:ephemeral_encryption_format": "plain|luks|luksv2",
        "hw:serial_port_count": NUMBER,
        "hw:tpm_model": "tpm-tis|tpm-crb",
        "hw:tpm_version": r"1\.2|2\.0",
        "hw:tpm_secret_security": "user|host|deployment",
        "hw:watchdog_action": "none|pause|poweroff|reset|disabled",
        "hw:maxphysaddr_mode": "passthrough|emulate",
        "hw:maxphysaddr_bits": NUMBER,
        "hw:pmem": r"([a-zA-Z0-9_]+,?)+",
        "hw:viommu_model": "intel|smmuv3|virtio|auto",
        "hw:sound_model": "sb16|es1370|pcspk|ac97|ich6|ich9|usb|virtio",
        "hw:usb_model": "none|nec-xhci|qemu-xhci",
        "hw:redirected_usb_ports": r"\d|1[0-5]",
        "hw:(input_bus|cpu_mode|video_model)": ANYTHING,
    },
    "quota": {
        "quota:cpu_(shares|period|quota)": r"-?\d{1,10}",
        "quota:disk_(read|write|total)_(bytes|iops)_sec(_max(_length)?)?": NUMBER,
        "quota:vif_(inbound|outbound)_(average|burst|peak)": NUMBER,
        "quota:(cpu|memory|disk_io|vif)_(limit|reservation|shares_level|shares_share)": ANYTHING,
    },
    "trait": {rf"trait\d*:{_one_of(os_traits.get_traits())}": "required|forbidden"},
    "resources": {rf"resources\d*:{_one_of(os_resource_classes.STANDARDS)}": NUMBER},
    "os": {"os:(secure_boot)": "required|disabled|optional", "os:(monitors|vif_multiqueue_enabled)": ANYTHING},
    "accel": {"accel:device_profile": r"\S+"},
    "pci_passthrough": {"pci_passthrough:alias": r"[^:]+:\d+(,[^:]+:\d+)*"},
}
# Keys without a colon that the scheduler uses.
PLAIN: Mapping[str, str] = {"group_policy": "isolate|none", "hide_hypervisor_id": BOOLEAN}
NAMESPACE = re.compile(r"\A([a-z_]+?)\d*(?=:)")


def check(specs: Mapping[str, str]) -> None:
    """Raise Invalid naming the key."""
    for key, value in specs.items():
        _check_operator(key, value)
        match = NAMESPACE.match(key)
        rules = RULES.get(match[1]) if match else PLAIN if key in PLAIN else None
        if rules is None:
            continue
        allowed = next((pattern for name, pattern in rules.items() if re.fullmatch(name, key)), None)
        if allowed is None:
            raise Invalid(f"Validation failed; extra spec '{key}' does not appear to be a valid extra spec.", field=key)
        if not re.fullmatch(allowed, value):
            raise Invalid(f"Validation failed; '{value[:60]}' is not a valid value for extra spec '{key}'.", field=key)


def _check_operator(key: str, value: str) -> None:
    """Raise Invalid for a malformed comparison with hosts, which no host could ever meet."""
    fault = fault_of(value) if key.startswith(COMPARED) else ""
    if fault:
        message = f"Validation failed; '{value[:60]}' is not a valid value for extra spec '{key}': {fault}."
        raise Invalid(message, field=key)


def check_hints(hints: Mapping[str, Sequence[str]]) -> None:
    """Raise Invalid naming the hint."""
    for name in (QUERY_HINT, ADDRESS_HINT, LENGTH_HINT):
        if len(hints.get(name, ())) > 1:
            raise _refused(name, "it is one text, not a list of several")
    fault = query_fault("".join(hints.get(QUERY_HINT, ())))
    if fault:
        raise _refused(QUERY_HINT, fault)
    address, length = "".join(hints.get(ADDRESS_HINT, ())), "".join(hints.get(LENGTH_HINT, [DEFAULT_LENGTH]))
    if address and network_of(address, "") is None:
        raise _refused(ADDRESS_HINT, f"{address[:60]} is no address")
    if address and network_of(address, length) is None:
        raise _refused(LENGTH_HINT, f"{address[:60]}{length[:60]} is no network; write the length as /24")


def _refused(name: str, fault: str) -> Invalid:
    where = f"os:scheduler_hints.{name}"
    return Invalid(f"Invalid input for field/attribute {where}: {fault}.", field=where)
