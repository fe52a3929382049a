"""Root file systems as tar archives: into a guest's disk, and out of it.

An archive has the ids that the guest sees, a disk those of this machine. Files are made and read by GNU tar, which
follows no link out of the disk; only the headers pass through Python.
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

from compute_drivers.programs import last_line, not_there
from conductor.core.errors import BuildAborted, DriverError
from conductor.core.request_spec import ImageSpec

IDS = 65_536
NOBODY = 65_534
TELL_EVERY = 256
DROPPED_HEADERS = ("uid", "gid", "uname", "gname", "size", "GNU.sparse.")
DAMAGES = (tarfile.TarError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)
NO_TAR = "The data of image {} are not a root file system as tar, which this host needs."
UNPACK = ("tar", "--extract", "--same-permissions", "--same-owner", "--numeric-owner", "--no-overwrite-dir")
# What changes under the hand of a guest that runs is taken as it is found.
PACK = ("tar", "--create", "--numeric-owner", "--one-file-system", "--warning=no-file-changed", "--ignore-failed-read")
CHANGED = 1


def unpack(image: ImageSpec, path: Path, root: Path, first_id: int, tell: Callable[[], None]) -> None:
    """Raises DriverError for what is no tar, BuildAborted for what does not fit or is damaged."""
    too_large = BuildAborted(f"Image {image.image_id} does not fit on the disk of the flavor.")
    room = shutil.disk_usage(root).free
    with _tar((*UNPACK, "--directory", str(root)), stdin=subprocess.PIPE) as (program, said):
        assert program.stdin is not None
        try:
            with suppress(BrokenPipeError), _opened(image, path) as source:  # tar that gave up says why
                members = _bounded(source, room, too_large)
                _shifted(source, members, program.stdin, lambda own: first_id + _known(own), tell)
        except DAMAGES as error:
            raise BuildAborted(f"The data of image {image.image_id} are damaged: they cannot be unpacked.") from error
        with suppress(BrokenPipeError):
            program.stdin.close()
        if program.wait():
            said.seek(0)
            complaint = said.read()
            if b"No space left" in complaint:
                raise too_large
            raise DriverError(f"The image could not be unpacked: {last_line(complaint)}.")


def pack(root: Path, target: Path, first_id: int, tell: Callable[[], None]) -> None:
    """Compressed, as far as that takes little time. Raises DriverError."""
    with _tar((*PACK, "--directory", str(root), "."), stdout=subprocess.PIPE) as (program, said):
        assert program.stdout is not None
        try:
            with (
                gzip.open(target, "xb", compresslevel=1) as file,
                tarfile.open(fileobj=program.stdout, mode="r|") as found,
            ):
                _shifted(found, found, cast(IO[bytes], file), lambda own: min(max(own - first_id, 0), NOBODY), tell)
        except DAMAGES as error:
            raise DriverError(
                "The disk could not be copied: there is no room, or what is on it cannot be read."
            ) from error
        if program.wait() > CHANGED:
            said.seek(0)
            raise DriverError(f"The disk could not be copied: {last_line(said.read())}.")


def _opened(image: ImageSpec, path: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(path, "r:*")
    except DAMAGES as error:
        raise DriverError(NO_TAR.format(image.image_id)) from error


def _bounded(members: Iterable[tarfile.TarInfo], room: int, too_large: BuildAborted) -> Iterator[tarfile.TarInfo]:
    """What a few bytes swell to is refused before it is written."""
    for member in members:
        room -= member.size
        if room < 0:
            raise too_large
        yield member


def _shifted(
    source: tarfile.TarFile,
    members: Iterable[tarfile.TarInfo],
    target: IO[bytes],
    shift: Callable[[int], int],
    tell: Callable[[], None],
) -> None:
    """Everything but devices, which a container gets from its host."""
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as made:
        for number, member in enumerate(members):
            if number % TELL_EVERY == 0:
                tell()
            if member.ischr() or member.isblk():
                continue
            data = source.extractfile(member) if member.isreg() else None
            made.addfile(_plain(member, shift), data)


def _plain(member: tarfile.TarInfo, shift: Callable[[int], int]) -> tarfile.TarInfo:
    """The same with other owners; a file with holes is one without."""
    headers = {name: value for name, value in member.pax_headers.items() if not name.startswith(DROPPED_HEADERS)}
    kind = tarfile.REGTYPE if member.isreg() else member.type
    made = copy.copy(member)
    made.type, made.pax_headers, made.uname, made.gname = kind, headers, "", ""
    made.uid, made.gid = shift(member.uid), shift(member.gid)
    made.size = member.size if member.isreg() else 0
    return made


def _known(own: int) -> int:
    return own if 0 <= own < IDS else NOBODY


@contextmanager
def _tar(
    words: tuple[str, ...], stdin: int = subprocess.DEVNULL, stdout: int = subprocess.DEVNULL
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """The program and what it complains of; it is ended with the work."""
    with tempfile.TemporaryFile() as said:
        try:
            program = subprocess.Popen(words, stdin=stdin, stdout=stdout, stderr=said)
        except OSError as error:
            raise not_there(words[0], error) from None
        try:
            yield program, said
        finally:
            program.kill()
            for stream in (program.stdin, program.stdout):
                if stream is not None:
                    with suppress(BrokenPipeError):
                        stream.close()
            program.wait()
