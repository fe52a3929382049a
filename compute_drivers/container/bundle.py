"""Writes a container's OCI bundle (process, mounts, permissions, limits) and its seed with metadata."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compute_drivers.container.options import ContainerOptions
from compute_drivers.container.root_archives import IDS
from compute_drivers.host_paths import os_errors_as
from compute_drivers.metadata_files import metadata_files
from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import BuildAborted

MB = 1 << 20
PERIOD = 100_000
INIT = "/sbin/init"
PATH_VARIABLE = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Where cloud-init looks for a config drive that is a folder.
SEED_MOUNT_POINT = "/var/lib/cloud/seed/config_drive"
OWN_DISK_MOUNT_POINT = "/mnt"
# Capabilities inside the container's own namespaces; none reaches the machine.
CAPABILITIES = [
    f"CAP_{name}"
    for name in (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_ADMIN",
        "NET_BIND_SERVICE",
        "NET_RAW",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
        "SYS_NICE",
    )
]
# System calls that affect the whole machine.
FORBIDDEN_SYSCALLS = [
    "add_key",
    "bpf",
    "delete_module",
    "finit_module",
    "init_module",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "open_by_handle_at",
    "perf_event_open",
    "request_key",
    "userfaultfd",
]
MASKED_PATHS = [
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/sys/firmware",
]
READ_ONLY_PATHS = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
MOUNTS = (
    ("/proc", "proc", ["nosuid", "noexec", "nodev"]),
    ("/dev", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
    ("/dev/pts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
    ("/dev/shm", "tmpfs", ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
    ("/dev/mqueue", "mqueue", ["nosuid", "noexec", "nodev"]),
    ("/sys", "sysfs", ["nosuid", "noexec", "nodev", "ro"]),
    ("/run", "tmpfs", ["nosuid", "nodev", "mode=755", "size=65536k"]),
)


@dataclass(frozen=True)
class ContainerMounts:
    """Paths of the host that the container sees; `own_disk` only while it is rescued."""

    root: Path
    seed: Path
    own_disk: Path | None = None


def write(folder: Path, guest: GuestSpec, mounts: ContainerMounts, options: ContainerOptions) -> None:
    """Write the bundle's `config.json`. Raises BuildAborted, DriverError."""
    described = json.dumps(describe(guest, mounts, options))
    with os_errors_as("The container could not be described"):
        (folder / "config.json").write_text(described)


def describe(guest: GuestSpec, mounts: ContainerMounts, options: ContainerOptions) -> dict[str, Any]:
    """Return the OCI runtime configuration. Raises BuildAborted."""
    ids = [{"containerID": 0, "hostID": options.first_id, "size": IDS}]
    return {
        "ociVersion": "1.0.2",
        "hostname": guest.hostname[:64] or "guest",
        "root": {"path": str(mounts.root), "readonly": False},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": init_command(guest),
            "env": [
                PATH_VARIABLE,
                "TERM=linux",
                "HOME=/root",
                "container=oci",
                f"container_uuid={guest.instance_uuid}",
            ],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), CAPABILITIES),
            "noNewPrivileges": False,
        },
        "mounts": _mounts(mounts),
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount", "user", "cgroup")],
            "uidMappings": ids,
            "gidMappings": ids,
            "cgroupsPath": f"/novella/{guest.instance_uuid}",
            "resources": _resources(guest, options),
            "maskedPaths": MASKED_PATHS,
            "readonlyPaths": READ_ONLY_PATHS,
            "seccomp": {
                "defaultAction": "SCMP_ACT_ALLOW",
                "syscalls": [{"names": FORBIDDEN_SYSCALLS, "action": "SCMP_ACT_ERRNO"}],
            },
        },
    }


def init_command(guest: GuestSpec) -> list[str]:
    """Return the command of the init process, which the image may set. Raises BuildAborted for an invalid one."""
    command = str(guest.image.properties.get("os_command_line", ""))
    try:
        words = shlex.split(command) or [INIT]
    except ValueError:
        raise BuildAborted("os_command_line: a quote is not closed.") from None
    if not words[0].startswith("/"):
        raise BuildAborted(f'os_command_line: "{words[0]}" is no absolute path of a program.')
    return words


def _resources(guest: GuestSpec, options: ContainerOptions) -> dict[str, Any]:
    return {
        "devices": [{"allow": False, "access": "rwm"}],  # the runtime adds null, zero, random and terminals
        "memory": {"limit": guest.flavor.memory_mb * MB},
        "cpu": {"quota": guest.flavor.vcpus * PERIOD, "period": PERIOD},
        "pids": {"limit": options.most_processes},
    }


def _mounts(mounts: ContainerMounts) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"destination": path, "type": kind, "source": kind, "options": options} for path, kind, options in MOUNTS
    ]
    found.append(_bind(mounts.seed, SEED_MOUNT_POINT, "ro"))
    if mounts.own_disk is not None:
        found.append(_bind(mounts.own_disk, OWN_DISK_MOUNT_POINT, "rw"))
    return found


def _bind(source: Path, mount_point: str, mode: str) -> dict[str, Any]:
    return {
        "destination": mount_point,
        "type": "bind",
        "source": str(source),
        "options": ["bind", mode, "nosuid", "nodev"],
    }


def write_seed(folder: Path, guest: GuestSpec, first_id: int, password: str = "") -> None:
    """Replace the folder with the guest's metadata files, readable for root of the container only.

    Raises BuildAborted, DriverError.
    """
    files = metadata_files(guest, password)
    part = folder.with_name(f"{folder.name}.part")
    with os_errors_as("What the guest shall know could not be written"):
        for left in (part, folder):
            if left.exists():
                shutil.rmtree(left)
        part.mkdir(mode=0o700)
        for path, data in files.items():
            (part / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (part / path).write_bytes(data)
        for parent, _, names in os.walk(part):
            os.chown(parent, first_id, first_id)
            for name in names:
                os.chmod(Path(parent) / name, 0o400)
                os.chown(Path(parent) / name, first_id, first_id)
        os.replace(part, folder)
