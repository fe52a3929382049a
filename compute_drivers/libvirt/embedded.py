"""Prepares the folder of a hypervisor that runs inside this process: short paths, settings, log."""

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
    "dynamic_ownership": "0",
    "remember_owner": "0",
    "security_driver": '"none"',
    "cgroup_controllers": "[ ]",
    "namespaces": "[ ]",
    "seccomp_sandbox": "1",
    "stdio_handler": '"file"',  # there is no log daemon
}

# The user that probes QEMU's capabilities where root runs it: with any other user libvirt would probe at each start.
# The accounts of guests are in their domains.
ROOT_SETTINGS = {"user": '"root"', "group": '"root"'}
# For guests with their own accounts: libvirt changes the owner of a guest's files at its start and its end.
ACCOUNT_SETTINGS = {"dynamic_ownership": "1"}
# Folders below libvirt's root that QEMU traverses.
TRAVERSED_FOLDERS = ("lib/qemu/nvram", "lib/qemu/channel/target", "run/qemu")


def prepare(root_dir: Path, *, has_accounts: bool = False) -> str:
    """Create and fill `root_dir`; return the URI that opens it. Raises DriverError."""
    try:
        for folder in (root_dir, root_dir / "etc", root_dir / "log"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        root_settings = ROOT_SETTINGS if os.geteuid() == 0 else {}
        chosen = {**QEMU_SETTINGS, **root_settings, **(ACCOUNT_SETTINGS if has_accounts else {})}
        settings = "".join(f"{name} = {value}\n" for name, value in chosen.items())
        (root_dir / "etc" / "qemu.conf").write_text(settings)
        return f"qemu:///embed?root={short_path(root_dir)}"
    except OSError as error:
        raise DriverError(f"The folder of the hypervisor cannot be made: {error}") from error


@contextmanager
def log_to_file(root_dir: Path) -> Iterator[None]:
    """Have libvirt log to a file instead of standard error, if it is loaded inside this block."""
    # libvirt reads the variable while it is loaded and offers no other way. Child processes must not inherit it.
    os.putenv(LOG_VARIABLE, f"3:file:{root_dir / 'log' / 'libvirt.log'}")
    try:
        yield
    finally:
        os.unsetenv(LOG_VARIABLE)


def short_path(directory: Path) -> Path:
    """Return `directory`, or a short link to it that is the same at every start. Raises DriverError, OSError."""
    directory = directory.resolve()
    if len(os.fsencode(directory)) <= LONGEST_ROOT:
        return directory
    name = hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]
    for parent in (Path("/run"), Path(f"/run/user/{os.geteuid()}"), Path(tempfile.gettempdir())):
        link = parent / f"novella-{os.geteuid()}" / name
        if len(os.fsencode(link)) > LONGEST_ROOT or not _is_private(link.parent):
            continue
        _remove_dead_links(link.parent)
        if not link.is_symlink() or Path(os.readlink(link)) != directory:
            link.unlink(missing_ok=True)
            link.symlink_to(directory)
        return link
    raise DriverError(f"The path {directory} is too long for the sockets of the hypervisor; choose a shorter one.")


def _is_private(directory: Path) -> bool:
    """Create the folder where it is missing; return whether only this user can write to it."""
    with suppress(OSError):
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
    return False


def _remove_dead_links(directory: Path) -> None:
    for link in directory.iterdir():
        if link.is_symlink() and not link.exists():
            link.unlink(missing_ok=True)
