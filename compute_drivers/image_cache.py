"""Images of this host: fetched once each, checked while they are written, whole or not there, and gone when unused."""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from conductor.core.compute_driver import OpenImage
from conductor.core.errors import BuildAborted, DriverError, NotFound
from conductor.core.request_spec import ImageSpec

log = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20
SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
PART = ".part"
LOOK_SECONDS = 60.0


class ImageCache:
    """Files under `directory`, named by image id. An image never changes, so a file that is there is the image.

    One that nobody used for `keep_seconds` goes, and earlier where all of them take more than `most_bytes`; 0 is no
    bound. What a disk lies on, or what is being built from, stays.
    """

    def __init__(
        self, directory: Path, open_image: OpenImage, *, most_bytes: int = 0, keep_seconds: float = 86400.0
    ) -> None:
        self._directory = directory
        self._open_image = open_image
        self._most_bytes = most_bytes
        self._keep_seconds = keep_seconds
        self._gates: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._numbers = itertools.count()
        self._checked: set[str] = set()
        self._held: Counter[str] = Counter()
        self._hold_gate = threading.Lock()
        self._look_at = 0.0

    def prepare(self) -> None:
        """Make the folder and drop what a killed process left half-written."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for part in self._directory.glob(f"*{PART}"):
            part.unlink(missing_ok=True)

    @contextmanager
    def held(self, *image_ids: str) -> Iterator[None]:
        """Whoever builds from these images keeps them until a disk lies on them."""
        with self._hold_gate:
            self._held.update(image_ids)
        try:
            yield
        finally:
            with self._hold_gate:
                self._held.subtract(image_ids)

    def fetch(self, image: ImageSpec, tell: Callable[[float | None], None]) -> Path:
        """The image's file. `tell` hears the share fetched and may raise to stop it.

        Raises BuildAborted when the image has no data or not the right ones, DriverError when they cannot be kept.
        """
        if not SAFE_ID.fullmatch(image.image_id):
            raise BuildAborted("The image has no usable id.")
        path = self._directory / image.image_id
        with self._gates[image.image_id]:
            if not self._has(path, image):
                self._write(path, image, tell)
            self._checked.add(image.image_id)
            with suppress(OSError):
                os.utime(path)  # the time of its last use
        return path

    def expire_sometimes(self, find_in_use: Callable[[], Collection[str]]) -> None:
        """`expire`, however often it is called, about once in a minute."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_SECONDS
            self.expire(find_in_use)

    def expire(self, find_in_use: Callable[[], Collection[str]]) -> list[str]:
        """Remove what is too old or too much, the longest unused first; the ids of what went."""
        gone = []
        with self._hold_gate:  # who holds an image from here on fetches it anew; disks made before are found
            busy = {image_id for image_id, count in self._held.items() if count > 0} | set(find_in_use())
            for image_id, path in self._too_many(busy, time.time()):
                with suppress(OSError):
                    path.unlink()
                    gone.append(image_id)
        for image_id in gone:
            log.info("unused image removed: %s", image_id)
        return gone

    def _too_many(self, busy: Collection[str], now: float) -> list[tuple[str, Path]]:
        found = {path: path.stat() for path in self._directory.iterdir() if path.suffix != PART}
        total = sum(seen.st_size for seen in found.values())
        chosen = []
        for path, seen in sorted(found.items(), key=lambda entry: entry[1].st_mtime):
            is_too_much = bool(self._most_bytes) and total > self._most_bytes
            if path.name not in busy and (is_too_much or now - seen.st_mtime > self._keep_seconds):
                chosen.append((path.name, path))
                total -= seen.st_size
        return chosen

    def _has(self, path: Path, image: ImageSpec) -> bool:
        """Whether the file is there and right; what is in it is looked at once by each process."""
        if not path.is_file() or (image.size and path.stat().st_size != image.size):
            return False
        if not image.checksum or image.image_id in self._checked:
            return True
        with path.open("rb") as file:
            is_right = hashlib.file_digest(file, _md5).hexdigest() == image.checksum
        if not is_right:
            log.error("the kept image %s is damaged and is fetched anew", image.image_id)
        return is_right

    def _write(self, path: Path, image: ImageSpec, tell: Callable[[float | None], None]) -> None:
        part = path.with_name(f"{path.name}.{os.getpid()}-{next(self._numbers)}{PART}")
        try:
            digest, size = self._copy(part, image, tell)
            if image.checksum and digest != image.checksum:
                raise BuildAborted(f"The data of image {image.image_id} do not have the image's checksum.")
            if image.size and size != image.size:
                raise BuildAborted(f"Image {image.image_id} has {size} bytes of data instead of {image.size}.")
            os.replace(part, path)
        except NotFound:
            raise BuildAborted(f"Image {image.image_id} has no data.") from None
        except OSError as error:
            raise DriverError(f"Image {image.image_id} could not be kept on this host: {error.strerror}.") from error
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _copy(self, part: Path, image: ImageSpec, tell: Callable[[float | None], None]) -> tuple[str, int]:
        """md5 and number of the bytes written."""
        md5, size = _md5(), 0
        with self._open_image(image.image_id) as source, part.open("xb") as target:
            while chunk := source.read(CHUNK_BYTES):
                target.write(chunk)
                md5.update(chunk)
                size += len(chunk)
                tell(min(size / image.size, 1.0) if image.size else None)
            target.flush()
            os.fsync(target.fileno())
        return md5.hexdigest(), size


def _md5() -> hashlib._Hash:
    return hashlib.md5(usedforsecurity=False)
