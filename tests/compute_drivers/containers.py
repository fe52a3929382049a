"""Helpers for tests of containers: a root file system of one busybox, and checks that nothing is left behind."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from compute_drivers.container.driver import ContainerDriver
from conductor.core.compute_driver import NetworkPort, VolumeConnection
from conductor.core.errors import BuildAborted, DriverError
from conductor.core.request_spec import FlavorSpec, ImageSpec
from tests.guests import ImageShelf, image_of
from tests.waiting import wait_until

SECONDS = 240.0
BUSYBOX = Path("/bin/busybox")
CHPASSWD = Path(__file__).resolve().parents[2] / "conductor" / "management" / "tiny_linux" / "guest" / "chpasswd.sh"
BANNER, TICK, FAREWELL = b"container runs\n", b"tick\n", b"going down\n"
INIT = b"""#!/bin/sh
trap 'echo going down; exit 0' TERM
echo container runs
while :; do echo tick; sleep 0.3 & wait $!; done
"""
APPLETS = (
    "sh",
    "ls",
    "cat",
    "id",
    "ip",
    "sleep",
    "hostname",
    "sed",
    "mkpasswd",
    "su",
    "mknod",
    "mount",
    "sync",
    "dd",
    "df",
    "chown",
    "chmod",
    "ln",
    "stat",
    "tty",
    "grep",
)


def entry(name: str, data: bytes = b"", *, mode: int = 0o755, uid: int = 0, **values: object) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.size, found.mode, found.uid, found.gid = len(data), mode, uid, uid
    for key, value in values.items():
        setattr(found, key, value)
    return found


def archive(
    files: Mapping[str, bytes] | None = None,
    *more: tarfile.TarInfo,
    mode: str = "w:gz",
    leave_out: Collection[str] = (),
) -> bytes:
    """Return a root file system; `files` are added or replaced, `more` comes last."""
    contents = {
        "bin/busybox": BUSYBOX.read_bytes(),
        "sbin/init": INIT,
        "bin/chpasswd": CHPASSWD.read_bytes(),
        "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nana:x:1000:1000::/:/bin/sh\n",
        **(files or {}),
    }
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as tar:  # type: ignore[call-overload]
        for name in ("bin", "sbin", "etc", "root", "tmp", "proc", "sys", "dev", "mnt"):
            tar.addfile(entry(name, type=tarfile.DIRTYPE))
        for applet in APPLETS:
            tar.addfile(entry(f"bin/{applet}", type=tarfile.SYMTYPE, linkname="busybox"))
        for name, data in contents.items():
            if name in leave_out:
                continue
            tar.addfile(entry(name, data), io.BytesIO(data))
        for member in more:
            tar.addfile(member)
    return made.getvalue()


ROOT = archive()
IMAGE = image_of("busybox", ROOT)
SHELF = ImageShelf({IMAGE.image_id: ROOT})


def shelved(name: str, data: bytes, **values: object) -> ImageSpec:
    """Return an image that the shelf has."""
    SHELF.images[name] = data
    return image_of(name, data, **values)


def inside(driver: ContainerDriver, uuid: str, script: str) -> str:
    """Return the output of a script in the container."""
    done = driver.node.runtime.run_inside(uuid, "/bin/sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def wait_for(driver: ContainerDriver, uuid: str, words: bytes, *, after: int = 0) -> bytes:
    def look() -> bytes:
        text = driver.console_log(uuid, 0)
        return text if words in text[after:] else b""

    found: bytes = wait_until(
        f"{words!r} on the console", look, SECONDS, details=lambda: driver.console_log(uuid, 0)[-2000:]
    )
    return found


def left_of(driver: ContainerDriver, uuid: str) -> list[str]:
    """Files, mounts, cgroups, containers and cards of a guest; [] when it is gone."""
    places = driver.node.paths
    found = [str(path) for root in (places.state_dir, places.own_run_dir) for path in root.rglob(f"*{uuid}*")]
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if uuid in line]
    found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/novella/{uuid}")]
    found += [uuid] if uuid in driver.node.runtime.states() else []
    links = subprocess.run([*driver.node.network_cards.far_ends.ip, "link"], capture_output=True, text=True, check=True)
    return found + [line for line in links.stdout.splitlines() if uuid in line]


def shells_of(uuid: str) -> int:
    """Shells beside the init, which is one too."""
    inits = Path(f"/sys/fs/cgroup/pids/novella/{uuid}/cgroup.procs").read_text().split()
    lines = [Path(f"/proc/{pid}/cmdline") for pid in inits]
    return sum(path.read_bytes() == b"/bin/sh\0" for path in lines if path.exists())


PORT = NetworkPort("p", "private", "fa:16:3e:00:00:01", "10.64.0.5", 20, "10.64.0.0/20", "10.64.0.1")
DAMAGED = archive()[: len(archive()) // 2]
TINY = FlavorSpec("3", "tiny", vcpus=1, memory_mb=64, root_gb=1)

# Invalid guests: image, other settings, error class, message.
WRONG: dict[str, tuple[Any, dict[str, Any], type[DriverError], str]] = {
    "no tar": (shelved("text", b"no tar" * 500), {}, DriverError, "are not a root file system as tar"),
    "a disk": (shelved("disk", b"QFI\xfb" * 500, disk_format="qcow2"), {}, DriverError, "are not a root file system"),
    "cut off": (shelved("damaged", DAMAGED), {}, BuildAborted, "are damaged: they cannot be unpacked"),
    "other bytes": (image_of("busybox-2", ROOT), {}, BuildAborted, "has no data"),
    "no init": (shelved("bare", archive(leave_out=("sbin/init",))), {}, DriverError, "could not"),
    "no command": (
        replace(IMAGE, properties={"os_command_line": "init 'x"}), {}, BuildAborted, "os_command_line: a quote"),
    "no path": (replace(IMAGE, properties={"os_command_line": "sh"}), {}, BuildAborted, 'os_command_line: "sh" is no'),
    "no image": (ImageSpec(), {}, DriverError, "built from an image"),
    "a volume": (IMAGE, {"volumes": (VolumeConnection("v", "/dev/null", 1),)}, DriverError, "have no volumes"),
    "swap": (IMAGE, {"flavor": replace(TINY, swap_mb=64)}, DriverError, "have no swap"),
    "user data": (IMAGE, {"user_data": "%%%a"}, BuildAborted, "not base64"),
    "a port": (IMAGE, {"ports": (replace(PORT, ip_address="10.64.0.500"),)}, BuildAborted, "no usable address"),
}  # fmt: skip
