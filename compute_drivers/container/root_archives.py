"""Unpacks images onto disks and packs disks into images, both as tar archives of a root file system.

Archives contain the ids that the guest sees, disks those of this machine. GNU tar reads and writes the files, because
it follows no link out of the disk; only headers are changed in Python.
"""

from __future__ import annotations

import copy
import gzip
import lzma
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from compute_drivers.programs import last_line, start_error
from conductor.core.errors import BuildAborted, DriverError
from conductor.core.request_spec import ImageSpec

IDS = 65_536
OVERFLOW_ID = 65_534
REPORT_EVERY = 256
DROPPED_HEADERS = ("uid", "gid", "uname", "gname", "size", "GNU.sparse.")
DAMAGES = (tarfile.TarError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)
NO_TAR = "The data of image {} are not a root file system as tar, which this host needs."
UNPACK = ("tar", "--extract", "--same-permissions", "--same-owner", "--numeric-owner", "--no-overwrite-dir")
# A running guest may change files meanwhile: that is no error.
PACK = ("tar", "--create", "--numeric-owner", "--one-file-system", "--warning=no-file-changed", "--ignore-failed-read")
CHANGED = 1


def unpack(image: ImageSpec, path: Path, root: Path, first_id: int, report: Callable[[], None]) -> None:
    """Unpack an image. Raises DriverError for data that are no tar, BuildAborted for too large or damaged ones."""
    too_large = BuildAborted(f"Image {image.image_id} does not fit on the disk of the flavor.")
    room = shutil.disk_usage(root).free
    with _tar((*UNPACK, "--directory", str(root)), stdin=subprocess.PIPE) as (program, errors):
        assert program.stdin is not None
        try:
            with suppress(BrokenPipeError), _opened(image, path) as source:  # tar ended; its error output says why
                members = _bounded(source, room, too_large)
                _copy_shifted(source, members, program.stdin, lambda own: first_id + _known(own), report)
        except DAMAGES as error:
            raise BuildAborted(f"The data of image {image.image_id} are damaged: they cannot be unpacked.") from error
        with suppress(BrokenPipeError):
            program.stdin.close()
        if program.wait():
            errors.seek(0)
            message = errors.read()
            if b"No space left" in message:
                raise too_large
            raise DriverError(f"The image could not be unpacked: {last_line(message)}.")


def pack(root: Path, target: Path, first_id: int, report: Callable[[], None]) -> None:
    """Pack a disk's files into a quickly compressed archive. Raises DriverError."""
    with _tar((*PACK, "--directory", str(root), "."), stdout=subprocess.PIPE) as (program, errors):
        assert program.stdout is not None
        try:
            with (
                gzip.open(target, "xb", compresslevel=1) as file,
                tarfile.open(fileobj=program.stdout, mode="r|") as found,
            ):
                target_file = cast(IO[bytes], file)
                _copy_shifted(found, found, target_file, lambda own: min(max(own - first_id, 0), OVERFLOW_ID), report)
        except DAMAGES as error:
            raise DriverError(
                "The disk could not be copied: there is no room, or what is on it cannot be read."
            ) from error
        if program.wait() > CHANGED:
            errors.seek(0)
            raise DriverError(f"The disk could not be copied: {last_line(errors.read())}.")


def _opened(image: ImageSpec, path: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(path, "r:*")
    except DAMAGES as error:
        raise DriverError(NO_TAR.format(image.image_id)) from error


def _bounded(members: Iterable[tarfile.TarInfo], room: int, too_large: BuildAborted) -> Iterator[tarfile.TarInfo]:
    """Yield members, and raise before one exceeds `room` bytes: a small archive may unpack to a huge one."""
    for member in members:
        room -= member.size
        if room < 0:
            raise too_large
        yield member


def _copy_shifted(
    source: tarfile.TarFile,
    members: Iterable[tarfile.TarInfo],
    target: IO[bytes],
    shift: Callable[[int], int],
    report: Callable[[], None],
) -> None:
    """Copy an archive with ids changed by `shift`, without device files, which a container gets from its host."""
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as made:
        for number, member in enumerate(members):
            if number % REPORT_EVERY == 0:
                report()
            if member.ischr() or member.isblk():
                continue
            data = source.extractfile(member) if member.isreg() else None
            made.addfile(_shift_member(member, shift), data)


def _shift_member(member: tarfile.TarInfo, shift: Callable[[int], int]) -> tarfile.TarInfo:
    """Return the member with shifted ids; a sparse file becomes a regular one."""
    headers = {name: value for name, value in member.pax_headers.items() if not name.startswith(DROPPED_HEADERS)}
    kind = tarfile.REGTYPE if member.isreg() else member.type
    made = copy.copy(member)
    made.type, made.pax_headers, made.uname, made.gname = kind, headers, "", ""
    made.uid, made.gid = shift(member.uid), shift(member.gid)
    made.size = member.size if member.isreg() else 0
    return made


def _known(own: int) -> int:
    return own if 0 <= own < IDS else OVERFLOW_ID


@contextmanager
def _tar(
    words: tuple[str, ...], stdin: int = subprocess.DEVNULL, stdout: int = subprocess.DEVNULL
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """Yield a running tar and its error output; tar is killed at the end of the block."""
    with tempfile.TemporaryFile() as errors:
        try:
            program = subprocess.Popen(words, stdin=stdin, stdout=stdout, stderr=errors)
        except OSError as error:
            raise start_error(words[0], error) from None
        try:
            yield program, errors
        finally:
            program.kill()
            for stream in (program.stdin, program.stdout):
                if stream is not None:
                    with suppress(BrokenPipeError):
                        stream.close()
            program.wait()
