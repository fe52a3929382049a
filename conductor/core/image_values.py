"""Validation of the values of known image properties: enumerations, whole numbers, conditions on versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from packaging.version import InvalidVersion, Version

from conductor.core import image_properties
from conductor.core.hardware import cpu_sets

BUSES = "fdc ide lxc sata scsi uml usb virtio xen"
WORDS: Mapping[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "hw_cdrom_bus": BUSES,
        "hw_cpu_policy": "dedicated mixed shared",
        "hw_cpu_thread_policy": "isolate prefer require",
        "hw_disk_bus": BUSES,
        "hw_ephemeral_encryption_format": "luks luksv2 plain",
        "hw_firmware_type": "bios uefi",
        "hw_floppy_bus": BUSES,
        "hw_input_bus": "usb virtio",
        "hw_maxphysaddr_mode": "emulate passthrough",
        "hw_mem_encryption_model": "amd-sev amd-sev-es",
        "hw_pci_numa_affinity_policy": "legacy preferred required socket",
        "hw_pointer_model": "usbtablet",
        "hw_rescue_bus": BUSES,
        "hw_rescue_device": "cdrom disk floppy fs lun",
        "hw_rng_model": "virtio",
        "hw_scsi_model": "buslogic ibmvscsi lsilogic lsisas1068 lsisas1078 virtio-scsi vmpvscsi",
        "hw_sound_model": "ac97 es1370 ich6 ich9 pcspk sb16 usb virtio",
        "hw_tpm_model": "tpm-crb tpm-tis",
        "hw_tpm_version": "1.2 2.0",
        "hw_usb_model": "nec-xhci none qemu-xhci",
        "hw_video_model": "bochs cirrus gop none qxl vga virtio vmvga xen",
        "hw_vif_model": (
            "e1000 e1000e igb lan9118 ne2k_pci netfront pcnet rtl8139 spapr-vlan sriov virtio vmxnet vmxnet3"
        ),
        "hw_viommu_model": "auto intel smmuv3 virtio",
        "hw_vm_mode": "exe hvm uml xen",
        "hw_watchdog_action": "disabled none pause poweroff reset",
        "img_config_drive": "mandatory optional",
        "img_hv_type": (
            "baremetal bhyve docker fake hyperv ironic kqemu kvm lxc lxd openvz parallels phyp prsm qemu test uml vbox "
            "vmware vz xen zvm"
        ),
        "img_signature_hash_method": "SHA-224 SHA-256 SHA-384 SHA-512",
        "img_signature_key_type": (
            "DSA ECC_SECP384R1 ECC_SECP521R1 ECC_SECT409K1 ECC_SECT409R1 ECC_SECT571K1 ECC_SECT571R1 RSA-PSS"
        ),
        "os_secure_boot": "disabled optional required",
        "os_type": "linux windows",
    }.items()
} | dict.fromkeys(("hw_architecture", "hw_emulation_architecture"), frozenset(image_properties.ARCHITECTURES))
NUMBERS = frozenset(
    name for name, read in image_properties.KNOWN.items() if read is image_properties.KNOWN["img_version"]
)
TEXTS = frozenset(name for name, read in image_properties.KNOWN.items() if read is str) - WORDS.keys()
VERSIONS = "img_hv_requested_version"
CONDITION = re.compile(r"\s*(<=|>=|<|>|!=|==)\s*([^\s]+)\s*")
MEMORY, CPUS = "hw_numa_mem", "hw_numa_cpus"


def unreadable_in(properties: Mapping[str, Any]) -> str:
    """Return the first property with an invalid value, and the reason. Empty where all are valid.

    Raises Invalid where the CPUs of a NUMA cell are not a set of CPUs.
    """
    known = image_properties.known(properties)
    for name, value in known.items():
        why = _why(name, value, properties.get(name))
        if why:
            return f"image property {name}: {why}"
    for number, value in enumerate(image_properties.numbered(properties, MEMORY)):
        if not _is_whole(value):
            return f'image property {MEMORY}.{number}: "{value}" is not a whole number'
    for number, value in enumerate(image_properties.numbered(properties, CPUS)):
        cpu_sets.parse(str(value), key=f"{CPUS}.{number}")
    return ""


def _why(name: str, value: object, given: object) -> str:
    if name in WORDS:
        # Words with several names are looked up as texts; others must be texts.
        is_text = isinstance(value, str) and (given is None or isinstance(given, str))
        return "" if is_text and value in WORDS[name] else f'"{value}" is none of {", ".join(sorted(WORDS[name]))}'
    if name in NUMBERS:
        return "" if _is_whole(value) else f'"{value}" is not a whole number'
    if name == VERSIONS:
        return "" if _is_condition(str(value)) else f'"{value}" is no condition on versions such as >=6.0, <9'
    if name in TEXTS and not isinstance(value, str):
        return f'"{value}" is no text'
    return ""


def _is_whole(value: object) -> bool:
    try:
        int(str(value))
    except ValueError:
        return False
    return True


def _is_condition(text: str) -> bool:
    for part in text.split(","):
        found = CONDITION.fullmatch(part)
        try:
            Version(found[2] if found else "")
        except InvalidVersion:
            return False
    return True
