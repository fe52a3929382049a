"""The image `tiny-linux`, built once for all tests with real guests: by `make test`, before the first of them."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
from pathlib import Path

from conductor.management.tiny_linux import cpio
from conductor.management.tiny_linux.builder import APT_GET
from tests.locks import locked

PROJECT = Path(__file__).resolve().parents[1]
KEPT = PROJECT / ".pytest_cache" / "tiny-linux"
BUILD_SECONDS = 280.0
AGENT_PACKAGE = "qemu-guest-agent"
# User data for a guest that has its files; commands about file systems come over the serial line.
STARTS_AGENT = (
    b"#!/bin/sh\nmkdir -p /var/run /var/log\n"
    b"printf '#!/bin/sh\\necho files: $1 > /dev/ttyS0\\n' > /bin/hook\nchmod +x /bin/hook\n"
    b"qemu-ga -d -m virtio-serial -F/bin/hook -p $(ls -d /dev/vport*)\n"
)


def copy_image(folder: Path) -> Path:
    """Copy the image's files into `folder`, where `manage.py up` finds them too. The builder reports outdated ones."""
    KEPT.parent.mkdir(exist_ok=True)
    with locked(KEPT.with_suffix(".lock")):
        build = [sys.executable, "-m", "conductor.management.tiny_linux.builder", "--output", str(KEPT)]
        done = subprocess.run(build, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
        assert done.returncode == 0, done.stderr
        shutil.copytree(KEPT, folder, dirs_exist_ok=True)
    return folder


def agent_files(folder: Path) -> bytes:
    """Debian's agent for guests with the libraries of this machine, to be unpacked beside the first file system."""
    folder.chmod(0o777)  # apt downloads as a user of its own
    for words in ([*APT_GET, "download", AGENT_PACKAGE], ["sh", "-c", f"dpkg-deb -x {AGENT_PACKAGE}_*.deb ."]):
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
        assert done.returncode == 0, done.stderr
    program = folder / "usr" / "sbin" / "qemu-ga"
    linked = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    libraries = [Path(found) for found in re.findall(r"(/\S+) \(0x", linked)]
    folders = dict.fromkeys(
        str(parent).lstrip("/") for path in libraries for parent in reversed(path.parents) if parent != Path("/")
    )
    entries = [*map(cpio.directory, folders), cpio.file("bin/qemu-ga", program.read_bytes(), 0o755)]
    entries += [cpio.file(str(path).lstrip("/"), path.read_bytes(), 0o755) for path in libraries]
    return gzip.compress(cpio.archive(entries), compresslevel=1, mtime=0)
