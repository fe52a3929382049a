"""Builds the image `tiny-linux` from Debian's kernel and busybox.

`python -m conductor.management.tiny_linux.builder --output DIR` writes vmlinuz, ramdisk.cpio.gz, disk.raw and
manifest.json into DIR. When the manifest matches this recipe and the files, nothing is built and nothing is downloaded.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from conductor.management.tiny_linux import cpio

SOURCE_DIR = Path(__file__).resolve().parent
SCRIPTS_DIR = SOURCE_DIR / "guest"
# A network that is away for a moment is waited for: the pauses of apt grow to half a minute.
APT_GET = ("apt-get", "-qq", "-o", "Acquire::Retries=8")
KERNEL_PACKAGE = "linux-image-cloud-amd64"
BUSYBOX_PACKAGE = "busybox-static"
DISK_BYTES = 1 << 20
DISK_TEXT = b"tiny-linux: an empty disk; kernel and first file system come from the host.\n"
FOLDERS = ("bin", "dev", "etc", "etc/acpi", "etc/acpi/PWRF", "lib", "lib/modules", "mnt", "proc", "root", "run", "sys")
# Script of ours → its place in the guest, and its permissions.
SCRIPTS = {
    "init": ("init", 0o755),
    "udhcpc.sh": ("etc/udhcpc.sh", 0o755),
    "power_button.sh": ("etc/acpi/PWRF/00000080", 0o755),
    "profile": ("etc/profile", 0o644),
    "read_disc.sh": ("bin/read_disc", 0o755),
    "chpasswd.sh": ("bin/chpasswd", 0o755),
}
# In the order of loading: each needs the ones before it.
MODULES = (
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_balloon",
    "virtio_blk",
    "failover",
    "net_failover",
    "virtio_net",
    "virtio_console",
    "scsi_common",
    "scsi_mod",
    "cdrom",
    "sr_mod",
    "libata",
    "ata_piix",
    "isofs",
    "button",
    "evdev",
)
MODULE_FILE = re.compile(r"(?P<name>[^/]+)\.ko(?P<packing>\.xz)?")


class CannotBuild(Exception):
    """One line: why there is no image."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Build the image tiny-linux.")
    parser.add_argument("--output", type=Path, required=True, help="the folder for the image's files")
    output: Path = parser.parse_args(arguments).output
    try:
        print(f"tiny-linux: {build(output)}")
    except CannotBuild as error:
        print(f"tiny-linux cannot be built: {error}", file=sys.stderr)
        return 1
    return 0


def build(output: Path) -> str:
    """Build the image in `output` unless it is current; returns what was done in a few words.

    Raises:
        CannotBuild: Debian's tools or packages are missing, or a file cannot be written.
    """
    if is_current(output):
        return "all there"
    try:
        files, versions = _make_files()
        _write(output, files, versions)
    except OSError as error:
        raise CannotBuild(str(error)) from error
    return f"built with kernel {versions['kernel']}"


def is_current(output: Path) -> bool:
    """Are the files in `output` there, whole, and made by this recipe?"""
    try:
        manifest = json.loads((output / "manifest.json").read_text())
        if manifest["recipe"] != recipe():
            return False
        return all(_sha256((output / name).read_bytes()) == digest for name, digest in manifest["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def recipe() -> str:
    """Return a digest of the product's sources that determine the result."""
    sources = [Path(__file__), SOURCE_DIR / "cpio.py", *(SCRIPTS_DIR / name for name in sorted(SCRIPTS))]
    return _sha256(b"\0".join(source.read_bytes() for source in sources))


def ramdisk(busybox: bytes, applets: Sequence[str], modules: dict[str, bytes]) -> bytes:
    """Return the guest's first and only file system, compressed. The same input gives the same bytes."""
    entries = [cpio.directory(name) for name in (*FOLDERS, "tmp")]
    entries.append(cpio.character_device("dev/console", 5, 1))
    entries.append(cpio.file("bin/busybox", busybox, 0o755))
    # busybox lists itself, and a link of that name would replace the program.
    entries += [cpio.link(f"bin/{applet}", "busybox") for applet in sorted(set(applets) - {"busybox"})]
    entries += [
        cpio.file(place, (SCRIPTS_DIR / name).read_bytes(), permissions)
        for name, (place, permissions) in SCRIPTS.items()
    ]
    entries.append(cpio.file("etc/passwd", b"root::0:0:root:/root:/bin/sh\n"))
    entries += [cpio.file(f"lib/modules/{name}.ko", data) for name, data in modules.items()]
    entries.append(cpio.file("lib/modules/order", "".join(f"{name}\n" for name in modules).encode()))
    return gzip.compress(cpio.archive(entries), compresslevel=9, mtime=0)


def _make_files() -> tuple[dict[str, bytes], dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="tiny-linux-") as folder:
        kernel_package, busybox_package = _download(Path(folder))
        vmlinuz, version, modules = _unpack_kernel(kernel_package)
        busybox = _only(_members(busybox_package, lambda name: name in ("bin/busybox", "usr/bin/busybox")), "busybox")
        program = Path(folder) / "busybox"
        program.write_bytes(busybox)
        program.chmod(0o755)
        applets = _run([str(program), "--list"], Path(folder)).split()
    files = {
        "vmlinuz": vmlinuz,
        "ramdisk.cpio.gz": ramdisk(busybox, applets, modules),
        "disk.raw": DISK_TEXT.ljust(DISK_BYTES, b"\0"),
    }
    return files, {"kernel": version, "busybox": unquote(busybox_package.name.split("_")[1])}


def _write(output: Path, files: dict[str, bytes], versions: dict[str, str]) -> None:
    """Write the files, and the manifest last, so that it lists no missing file."""
    output.mkdir(parents=True, exist_ok=True)
    manifest = {
        "recipe": recipe(),
        "versions": versions,
        "files": {name: _sha256(data) for name, data in files.items()},
    }
    text = json.dumps(manifest, indent=2).encode() + b"\n"
    for name, data in {**files, "manifest.json": text}.items():
        part = output / f".{name}.{os.getpid()}.part"
        part.write_bytes(data)
        os.replace(part, output / name)


def _download(folder: Path) -> tuple[Path, Path]:
    """Debian's packages of kernel and busybox in `folder`. Old package lists are refreshed once."""
    for program in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(program) is None:
            raise CannotBuild(f"this needs Debian's package tools, and there is no {program}")
    try:
        return _try_download(folder)
    except CannotBuild:
        if os.geteuid() != 0:
            raise
    _run([*APT_GET, "update"], folder)
    return _try_download(folder)


def _try_download(folder: Path) -> tuple[Path, Path]:
    described = _run(["apt-cache", "depends", "--important", KERNEL_PACKAGE], folder)
    found = re.search(r"Depends: (linux-image-[^\s]+)", described)
    if found is None:
        raise CannotBuild(f"Debian's package lists here have no {KERNEL_PACKAGE}")
    _run([*APT_GET, "download", found[1], BUSYBOX_PACKAGE], folder)
    kernel, busybox = (_newest(folder, name) for name in (found[1], BUSYBOX_PACKAGE))
    return kernel, busybox


def _newest(folder: Path, package: str) -> Path:
    found = sorted(folder.glob(f"{package}_*.deb"))
    if not found:
        raise CannotBuild(f"apt-get downloaded no {package}")
    return found[-1]


def _unpack_kernel(package: Path) -> tuple[bytes, str, dict[str, bytes]]:
    """Return the kernel, its version, and the modules in the order of loading."""
    wanted = set(MODULES)
    kernels: dict[str, bytes] = {}
    modules: dict[str, bytes] = {}
    built_in = ""
    for name, data in _members(package, lambda name: _is_wanted(name, wanted)):
        base = name.rpartition("/")[2]
        module = MODULE_FILE.fullmatch(base)
        if module:
            modules[module["name"]] = lzma.decompress(data) if module["packing"] else data
        elif base == "modules.builtin":
            built_in = data.decode()
        else:
            kernels[base.removeprefix("vmlinuz-")] = data
    missing = [name for name in MODULES if name not in modules and f"/{name}.ko" not in built_in]
    if missing or len(kernels) != 1:
        raise CannotBuild(f"{package.name} has {len(kernels)} kernels and lacks {', '.join(missing) or 'no module'}")
    ((version, vmlinuz),) = kernels.items()
    return vmlinuz, version, {name: modules[name] for name in MODULES if name in modules}


def _is_wanted(name: str, modules: set[str]) -> bool:
    base = name.rpartition("/")[2]
    module = MODULE_FILE.fullmatch(base)
    if module:
        return module["name"] in modules
    return name.startswith("boot/vmlinuz-") or base == "modules.builtin"


def _members(package: Path, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Regular files of a Debian package, read from the stream: nothing else is unpacked."""
    done = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], capture_output=True, check=False)
    if done.returncode:
        raise CannotBuild(f"{package.name} cannot be unpacked: {_last_line(done.stderr.decode(errors='replace'))}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
        for member in files:
            name = member.name.removeprefix("./")
            content = files.extractfile(member) if member.isfile() and is_wanted(name) else None
            if content is not None:
                yield name, content.read()


def _only(members: Iterator[tuple[str, bytes]], what: str) -> bytes:
    found = dict(members)
    if len(found) != 1:
        raise CannotBuild(f"the package has {len(found)} files {what}")
    return next(iter(found.values()))


def _run(command: Sequence[str], folder: Path) -> str:
    plain = ["env", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", *command]
    done = subprocess.run(plain, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild(f"{' '.join(command[:3])}: {_last_line(done.stderr)}")
    return done.stdout


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1]


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
