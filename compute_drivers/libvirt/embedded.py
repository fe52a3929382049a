"""Prepares the folder of a hypervisor that lives inside this process: short paths, settings, log."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from conductor.core.errors import DriverError

# libvirt's longest socket below its root is
# /lib/qemu/domain-99999-novella-01234567-890/monitor.sock, and the kernel takes 107 bytes.
LONGEST_ROOT = 48
LOG_VARIABLE = "LIBVIRT_LOG_OUTPUTS"
QEMU_SETTINGS = {
    "user": '"root"',  # a second user could not open /dev/kvm, and libvirt would look at QEMU anew at each start
    "group": '"root"',
    "dynamic_ownership": "0",
    "remember_owner": "0",
    "security_driver": '"none"',
    "cgroup_controllers": "[ ]",
    "namespaces": "[ ]",
    "seccomp_sandbox": "1",
    "stdio_handler": '"file"',  # there is no log daemon
}


def prepare(root_dir: Path) -> str:
    """Make and fill `root_dir`; the URI that opens it. Raises DriverError."""
    try:
        (root_dir / "etc").mkdir(parents=True, exist_ok=True)
        (root_dir / "log").mkdir(exist_ok=True)
        settings = "".join(f"{name} = {value}\n" for name, value in QEMU_SETTINGS.items())
        (root_dir / "etc" / "qemu.conf").write_text(settings)
        return f"qemu:///embed?root={short_path(root_dir)}"
    except OSError as error:
        raise DriverError(f"The folder of the hypervisor cannot be made: {error}") from error


@contextmanager
def own_log(root_dir: Path) -> Iterator[None]:
    """What libvirt says of itself goes to a file instead of our standard error, if it is loaded in this block."""
    # It reads this while it is loaded, and offers no other way. Processes that we start must not inherit it.
    os.putenv(LOG_VARIABLE, f"3:file:{root_dir / 'log' / 'libvirt.log'}")
    try:
        yield
    finally:
        os.unsetenv(LOG_VARIABLE)


def short_path(directory: Path) -> Path:
    """`directory`, or a link to it that is short enough and the same at every start. Raises DriverError, OSError."""
    directory = directory.resolve()
    if len(os.fsencode(directory)) <= LONGEST_ROOT:
        return directory
    name = hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]
    for place in (Path("/run"), Path(f"/run/user/{os.geteuid()}"), Path(tempfile.gettempdir())):
        link = place / f"novella-{os.geteuid()}" / name
        if len(os.fsencode(link)) > LONGEST_ROOT or not _is_ours(link.parent):
            continue
        _drop_dead_links(link.parent)
        if not link.is_symlink() or Path(os.readlink(link)) != directory:
            link.unlink(missing_ok=True)
            link.symlink_to(directory)
        return link
    raise DriverError(f"The path {directory} is too long for the sockets of the hypervisor; choose a shorter one.")


def _is_ours(directory: Path) -> bool:
    """Make it if it is not there; a folder in which others may put links is none for us."""
    with suppress(OSError):
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
    return False


def _drop_dead_links(directory: Path) -> None:
    for link in directory.iterdir():
        if link.is_symlink() and not link.exists():
            link.unlink(missing_ok=True)
