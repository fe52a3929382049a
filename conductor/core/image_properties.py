"""Image properties that scheduling knows: their names, old names, and the meaning of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
TRAIT = "trait:"

ARCHITECTURES = (
    "aarch64",
    "alpha",
    "armv6",
    "armv7b",
    "armv7l",
    "cris",
    "i686",
    "ia64",
    "lm32",
    "m68k",
    "microblaze",
    "microblazeel",
    "mips",
    "mips64",
    "mips64el",
    "mipsel",
    "openrisc",
    "parisc",
    "parisc64",
    "ppc",
    "ppc64",
    "ppc64le",
    "ppcemb",
    "ppcle",
    "s390",
    "s390x",
    "sh4",
    "sh4eb",
    "sparc",
    "sparc64",
    "unicore32",
    "x86_64",
    "xtensa",
    "xtensaeb",
)
_ARCHITECTURE = {
    **dict.fromkeys(("i386", "i486", "i586", "x86_32", "x86_32p"), "i686"),
    "amd64": "x86_64",
}
_HYPERVISOR = {"xapi": "xen"}
_MODE = {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}
_SCSI = {"lsilogicsas": "lsisas1068", "paravirtual": "vmpvscsi"}
_VIF = {
    "virtuale1000": "e1000",
    "virtuale1000e": "e1000e",
    "virtualpcnet32": "pcnet",
    "virtualsriovethernetcard": "sriov",
    "virtualvmxnet": "vmxnet",
    "virtualvmxnet3": "vmxnet3",
}


def architecture(value: object) -> str:
    """Return the canonical name of an architecture that has several names."""
    return _one_name(value, _ARCHITECTURE)


def hypervisor(value: object) -> str:
    """Return the canonical name of a hypervisor type that has several names."""
    return _one_name(value, _HYPERVISOR)


def mode(value: object) -> str:
    """Return the canonical name of a VM mode that has several names."""
    return _one_name(value, _MODE)


def _one_name(value: object, names: Mapping[str, str]) -> str:
    text = str(value).lower()
    return names.get(text, text)


def _boolean(value: object) -> bool:
    return value if isinstance(value, bool) else str(value).strip().lower() in TRUE


def _integer(value: object) -> object:
    try:
        return int(str(value))
    except ValueError:
        return value


_KINDS: Mapping[Callable[[Any], object], str] = {
    architecture: "hw_architecture hw_emulation_architecture",
    hypervisor: "img_hv_type",
    mode: "hw_vm_mode",
    lambda value: _one_name(value, _SCSI): "hw_scsi_model",
    lambda value: _one_name(value, _VIF): "hw_vif_model",
    lambda value: str(value).lower(): "os_type",
    _boolean: (
        "hw_boot_menu hw_firmware_stateless hw_ipxe_boot hw_locked_memory hw_mem_encryption hw_pmu hw_qemu_guest_agent "
        "hw_time_hpet hw_vif_multiqueue_enabled hw_ephemeral_encryption hw_virtio_packed_ring img_bittorrent "
        "img_bdm_v2 img_cache_in_nova img_linked_clone img_use_agent img_hide_hypervisor_id os_require_quiesce "
        "os_skip_agent_inject_files_at_boot os_skip_agent_inject_ssh"
    ),
    _integer: (
        "hw_cpu_cores hw_cpu_sockets hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_threads "
        "hw_device_id hw_numa_nodes hw_serial_port_count hw_video_ram hw_maxphysaddr_bits hw_redirected_usb_ports "
        "img_compression_level img_version"
    ),
    str: (
        "hw_auto_disk_config hw_cdrom_bus hw_cpu_policy hw_cpu_thread_policy hw_cpu_realtime_mask hw_disk_bus "
        "hw_disk_type hw_floppy_bus hw_firmware_type hw_input_bus hw_machine_type hw_mem_encryption_model "
        "hw_mem_page_size hw_pci_numa_affinity_policy hw_pointer_model hw_rescue_bus hw_rescue_device hw_rng_model "
        "hw_video_model hw_viommu_model hw_watchdog_action hw_tpm_model hw_tpm_version "
        "hw_ephemeral_encryption_format hw_ephemeral_encryption_secret_uuid hw_maxphysaddr_mode hw_sound_model "
        "hw_usb_model img_hv_requested_version img_config_drive img_owner_id img_root_device_name img_signature "
        "img_signature_hash_method img_signature_certificate_uuid img_signature_key_type os_admin_user "
        "os_command_line os_distro os_secure_boot"
    ),
}
KNOWN: Mapping[str, Callable[[Any], object]] = {name: read for read, names in _KINDS.items() for name in names.split()}

OLD_NAMES: Mapping[str, str] = {
    "architecture": "hw_architecture",
    "auto_disk_config": "hw_auto_disk_config",
    "bdm_v2": "img_bdm_v2",
    "bittorrent": "img_bittorrent",
    "cache_in_nova": "img_cache_in_nova",
    "hypervisor_type": "img_hv_type",
    "hypervisor_version_requires": "img_hv_requested_version",
    "ipxe_boot": "hw_ipxe_boot",
    "owner_id": "img_owner_id",
    "root_device_name": "img_root_device_name",
    "vm_mode": "hw_vm_mode",
    "vmware_disktype": "hw_disk_type",
    "vmware_image_version": "img_version",
    "vmware_linked_clone": "img_linked_clone",
    "vmware_ostype": "os_distro",
    "xenapi_device_id": "hw_device_id",
    "xenapi_image_compression_level": "img_compression_level",
    "xenapi_skip_agent_inject_files_at_boot": "os_skip_agent_inject_files_at_boot",
    "xenapi_skip_agent_inject_ssh": "os_skip_agent_inject_ssh",
    "xenapi_use_agent": "img_use_agent",
}
ADAPTER = "vmware_adaptertype"


def known(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known properties by their current names, each value converted to its meaning.

    `"yes"` of a switch is True, `"4"` of a number is 4, `amd64` is x86_64. A current name overrides an old one.
    Numbered NUMA cells and required traits become lists. A value that cannot be read stays a text.
    """
    global _last
    last = _last
    if last is None or last[0] is not properties or last[1] != properties:
        _last = last = (properties, dict(properties), _read(properties))
    return dict(last[2])


# A caller that judges many hosts needs the properties of one image for each of them.
_last: tuple[Mapping[str, Any], dict[str, Any], dict[str, Any]] | None = None


def _read(properties: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for old, name in OLD_NAMES.items():
        if properties.get(old) is not None:
            found[name] = KNOWN[name](properties[old])
    adapter = properties.get(ADAPTER)
    if adapter == "ide":
        found["hw_disk_bus"] = "ide"
    elif adapter:
        found |= {"hw_disk_bus": "scsi", "hw_scsi_model": KNOWN["hw_scsi_model"](adapter)}
    found |= {name: KNOWN[name](value) for name, value in properties.items() if name in KNOWN and value is not None}
    cells = numbered(properties, "hw_numa_mem")
    if cells:
        found["hw_numa_mem"] = [_integer(value) for value in cells]
    traits = [str(name)[len(TRAIT) :] for name, value in properties.items() if _is_required(name, value)]
    if traits:
        found["traits_required"] = traits
    return found


def counted(properties: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return the known properties as pairs of texts, to compare images by them."""
    return frozenset((name, str(value)) for name, value in known(properties).items())


def numbered(properties: Mapping[str, Any], name: str) -> list[Any]:
    """Return the values of name.0, name.1, … up to the first gap."""
    values: list[Any] = []
    while f"{name}.{len(values)}" in properties:
        values.append(properties[f"{name}.{len(values)}"])
    return values


def _is_required(name: str, value: object) -> bool:
    return str(name).startswith(TRAIT) and str(value) == "required"
