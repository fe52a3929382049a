"""A container as the OCI runtime wants it described: what it starts, what it sees, what it may, how much it gets."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compute_drivers.container.options import ContainerOptions
from compute_drivers.container.root_archives import IDS
from compute_drivers.host_places import files
from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import BuildAborted

MB = 1 << 20
PERIOD = 100_000
INIT = "/sbin/init"
PATHS = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Where cloud-init looks for a config drive that is a folder.
SEED_PLACE = "/var/lib/cloud/seed/config_drive"
OWN_DISK_PLACE = "/mnt"
# As root of its own namespaces alone; nothing here reaches the machine.
POWERS = [
    f"CAP_{name}"
    for name in (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_ADMIN"),
        *("NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT", "SYS_NICE"),
    )
]
# What a kernel does for the whole machine.
FORBIDDEN_CALLS = [
    *("add_key", "bpf", "delete_module", "finit_module", "init_module", "kexec_file_load", "kexec_load", "keyctl"),
    *("lookup_dcookie", "open_by_handle_at", "perf_event_open", "request_key", "userfaultfd"),
]
HIDDEN = [
    *("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi"),
    *("/proc/timer_list", "/sys/firmware"),
]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
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
class Parts:
    """What the container is made of on this machine; `own_disk` is there while it is rescued."""

    root: Path
    seed: Path
    own_disk: Path | None = None


def write(folder: Path, guest: GuestSpec, parts: Parts, has: ContainerOptions) -> None:
    """Raises BuildAborted, DriverError."""
    described = json.dumps(describe(guest, parts, has))
    with files("The container could not be described"):
        (folder / "config.json").write_text(described)


def describe(guest: GuestSpec, parts: Parts, has: ContainerOptions) -> dict[str, Any]:
    ids = [{"containerID": 0, "hostID": has.first_id, "size": IDS}]
    return {
        "ociVersion": "1.0.2",
        "hostname": guest.hostname[:64] or "guest",
        "root": {"path": str(parts.root), "readonly": False},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": init_of(guest),
            "env": [PATHS, "TERM=linux", "HOME=/root", "container=oci", f"container_uuid={guest.instance_uuid}"],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), POWERS),
            "noNewPrivileges": False,
        },
        "mounts": _mounts(parts),
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount", "user", "cgroup")],
            "uidMappings": ids,
            "gidMappings": ids,
            "cgroupsPath": f"/novella/{guest.instance_uuid}",
            "resources": _resources(guest, has),
            "maskedPaths": HIDDEN,
            "readonlyPaths": READ_ONLY,
            "seccomp": {
                "defaultAction": "SCMP_ACT_ALLOW",
                "syscalls": [{"names": FORBIDDEN_CALLS, "action": "SCMP_ACT_ERRNO"}],
            },
        },
    }


def init_of(guest: GuestSpec) -> list[str]:
    """The image may say what to start. Raises BuildAborted for what is no command."""
    wanted = str(guest.image.properties.get("os_command_line", ""))
    try:
        words = shlex.split(wanted) or [INIT]
    except ValueError:
        raise BuildAborted("os_command_line: a quote is not closed.") from None
    if not words[0].startswith("/"):
        raise BuildAborted(f'os_command_line: "{words[0]}" is no absolute path of a program.')
    return words


def _resources(guest: GuestSpec, has: ContainerOptions) -> dict[str, Any]:
    return {
        "devices": [{"allow": False, "access": "rwm"}],  # the runtime adds null, zero, random and terminals
        "memory": {"limit": guest.flavor.memory_mb * MB},
        "cpu": {"quota": guest.flavor.vcpus * PERIOD, "period": PERIOD},
        "pids": {"limit": has.most_processes},
    }


def _mounts(parts: Parts) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"destination": place, "type": kind, "source": kind, "options": options} for place, kind, options in MOUNTS
    ]
    found.append(_bind(parts.seed, SEED_PLACE, "ro"))
    if parts.own_disk is not None:
        found.append(_bind(parts.own_disk, OWN_DISK_PLACE, "rw"))
    return found


def _bind(source: Path, place: str, how: str) -> dict[str, Any]:
    return {
        "destination": place,
        "type": "bind",
        "source": str(source),
        "options": ["bind", how, "nosuid", "nodev"],
    }
