"""Guest features that only some hosts support: their flavor and image settings, and the traits that stand for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import os_resource_classes as classes
import os_traits as traits

from conductor.core import image_properties
from conductor.core.errors import Invalid
from conductor.core.hardware.constraints import HardwareRequirements, is_true
from conductor.core.hardware.request import SOCKET

TPM_VERSIONS = {"1.2": traits.COMPUTE_SECURITY_TPM_1_2, "2.0": traits.COMPUTE_SECURITY_TPM_2_0}
TPM_MODELS = {"tpm-tis": traits.COMPUTE_SECURITY_TPM_TIS, "tpm-crb": traits.COMPUTE_SECURITY_TPM_CRB}
TPM_SECRETS = {
    "user": traits.COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER,
    "host": traits.COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST,
    "deployment": traits.COMPUTE_SECURITY_TPM_SECRET_SECURITY_DEPLOYMENT,
}
ENCRYPTED_MEMORY = {"amd-sev": traits.HW_CPU_X86_AMD_SEV, "amd-sev-es": traits.HW_CPU_X86_AMD_SEV_ES}
ADDRESS_MODES = {
    "passthrough": traits.COMPUTE_ADDRESS_SPACE_PASSTHROUGH,
    "emulate": traits.COMPUTE_ADDRESS_SPACE_EMULATED,
}
SECURE_BOOT = ("required", "disabled", "optional")
SOUND_MODELS = ("sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio")
ENCRYPTION_FORMATS = ("luks", "luksv2", "plain")


@dataclass(frozen=True, slots=True)
class Feature:
    """A trait that the host must have, and the resources that the feature takes."""

    trait: str
    resources: Mapping[str, int] = field(default_factory=dict)


def features_of(requirements: HardwareRequirements) -> Iterator[Feature]:
    """Yield the features that flavor and image request. Raises Invalid naming an unreadable or contradictory key."""
    for of in (_encrypted_memory, _tpm, _secure_boot, _address_mode, _stateless_firmware, _device_sockets):
        yield from of(requirements)


def persistent_memory(requirements: HardwareRequirements) -> dict[str, int]:
    """Return namespaces of persistent memory by resource class."""
    labels = [label.strip() for label in str(requirements.extra_specs.get("hw:pmem") or "").split(",")]
    return dict(Counter(classes.normalize_name(f"PMEM_NAMESPACE_{label}") for label in labels if label))


def tpm_version(requirements: HardwareRequirements) -> str | None:
    """Return the version of the emulated TPM; None where none is requested."""
    version = agreed(requirements, "tpm_version", TPM_VERSIONS)
    model = agreed(requirements, "tpm_model", TPM_MODELS) if version else None
    if model == "tpm-crb" and version != "2.0":
        raise Invalid("hw:tpm_model: tpm-crb needs hw:tpm_version 2.0.")
    return version


def switch(requirements: HardwareRequirements, key: str) -> bool:
    """Return a switch that flavor or image may turn on. Raises Invalid where they contradict."""
    wanted, offered = requirements.both(key)
    values = {is_true(value) for value in (wanted, offered) if value is not None}
    if len(values) > 1:
        raise Invalid(f'hw_{key}: the image says "{offered}", which contradicts "{wanted}" in the flavor\'s hw:{key}.')
    return True in values


def agreed(
    requirements: HardwareRequirements, key: str, values: Mapping[str, str] | tuple[str, ...], *, prefix: str = "hw"
) -> str | None:
    """Return the value of flavor or image; where both are set they must be equal."""
    wanted = requirements.extra_specs.get(f"{prefix}:{key}")
    offered = requirements.properties.get(f"{prefix}_{key}")
    if wanted and offered and str(wanted) != str(offered):
        names = f"{prefix}_{key}: the image says", f"in the flavor's {prefix}:{key}"
        raise Invalid(f'{names[0]} "{offered}", which contradicts "{wanted}" {names[1]}.')
    value = wanted or offered
    if not value:
        return None
    if str(value) not in values:
        where = f"{prefix}:{key}" if wanted else f"{prefix}_{key}"
        raise Invalid(f'{where}: "{value}" is none of {", ".join(values)}.')
    return str(value)


def _tpm(requirements: HardwareRequirements) -> Iterator[Feature]:
    version = tpm_version(requirements)
    if version:
        yield Feature(TPM_MODELS[agreed(requirements, "tpm_model", TPM_MODELS) or "tpm-tis"])
        yield Feature(TPM_VERSIONS[version])


def _secure_boot(requirements: HardwareRequirements) -> Iterator[Feature]:
    if agreed(requirements, "secure_boot", SECURE_BOOT, prefix="os") == "required":
        yield Feature(traits.COMPUTE_SECURITY_UEFI_SECURE_BOOT)


def _address_mode(requirements: HardwareRequirements) -> Iterator[Feature]:
    mode = agreed(requirements, "maxphysaddr_mode", ADDRESS_MODES)
    if mode:
        yield Feature(ADDRESS_MODES[mode])


def _stateless_firmware(requirements: HardwareRequirements) -> Iterator[Feature]:
    properties = image_properties.known(requirements.properties)
    if not properties.get("hw_firmware_stateless"):
        return
    if properties.get("hw_firmware_type") != "uefi":
        raise Invalid("hw_firmware_stateless: it needs hw_firmware_type=uefi.")
    yield Feature(traits.COMPUTE_SECURITY_STATELESS_FIRMWARE)


def _device_sockets(requirements: HardwareRequirements) -> Iterator[Feature]:
    if requirements.pci_policy() == SOCKET:
        yield Feature(traits.COMPUTE_SOCKET_PCI_NUMA_AFFINITY)


def _encrypted_memory(requirements: HardwareRequirements) -> Iterator[Feature]:
    if not switch(requirements, "mem_encryption"):
        return
    properties = image_properties.known(requirements.properties)
    _refuse_other_machines(properties)
    model = agreed(requirements, "mem_encryption_model", ENCRYPTED_MEMORY) or "amd-sev"
    yield Feature(ENCRYPTED_MEMORY[model], {classes.MEM_ENCRYPTION_CONTEXT: 1})


def _refuse_other_machines(properties: Mapping[str, Any]) -> None:
    if properties.get("hw_firmware_type") != "uefi":
        raise Invalid("hw:mem_encryption: it needs an image with hw_firmware_type=uefi.")
    machine = properties.get("hw_machine_type")
    if machine is not None and "q35" not in str(machine):
        raise Invalid(f'hw:mem_encryption: it needs a q35 machine, the image\'s hw_machine_type is "{machine}".')
