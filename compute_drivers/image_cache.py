"""Caches images on a host: fetches each once, verifies its checksum, and removes unused ones."""

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
from functools import partial
from pathlib import Path

from conductor.core.compute_driver import OpenImage
from conductor.core.errors import BuildAborted, DriverError, NotFound
from conductor.core.request_spec import ImageSpec

log = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20
SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
PART = ".part"
EXPIRE_INTERVAL_SECONDS = 60.0
_md5 = partial(hashlib.md5, usedforsecurity=False)


class ImageCache:
    """Files in `directory`, named by image id. Images are immutable, so an existing file is the image.

    An image unused for `keep_seconds` is removed, and earlier while all images exceed `most_bytes` (0: unlimited).
    Images that disks lie on, or that a build uses, stay.
    """

    def __init__(
        self, directory: Path, open_image: OpenImage, *, most_bytes: int = 0, keep_seconds: float = 86400.0
    ) -> None:
        self._directory = directory
        self._open_image = open_image
        self._most_bytes = most_bytes
        self._keep_seconds = keep_seconds
        self._fetch_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._numbers = itertools.count()
        self._checked: set[str] = set()
        self._pins: Counter[str] = Counter()
        self._pin_lock = threading.Lock()
        self._expire_at = 0.0

    def prepare(self) -> None:
        """Create the folder and remove partial files of killed processes."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in self._directory.glob(f"*{PART}"):
            part.unlink(missing_ok=True)

    @contextmanager
    def pinned(self, *image_ids: str) -> Iterator[None]:
        """Keep these images inside the block, until a disk lies on them."""
        with self._pin_lock:
            self._pins.update(image_ids)
        try:
            yield
        finally:
            with self._pin_lock:
                self._pins.subtract(image_ids)

    def fetch(self, image: ImageSpec, report: Callable[[float | None], None]) -> Path:
        """Return the image's file, after fetching it where it is missing.

        Args:
            report: Called with the share fetched, None where the size is unknown. What it raises stops the fetch.

        Raises:
            BuildAborted: The image has no data, or data of another size or checksum.
            DriverError: The data cannot be written.
        """
        if not SAFE_ID.fullmatch(image.image_id):
            raise BuildAborted("The image has no usable id.")
        path = self._directory / image.image_id
        with self._fetch_locks[image.image_id]:
            if not self._is_cached(path, image):
                self._write(path, image, report)
            self._checked.add(image.image_id)
            with suppress(OSError):
                os.utime(path)  # marks the time of last use
        return path

    def expire_if_due(self, find_in_use: Callable[[], Collection[str]]) -> None:
        """Call `expire` at most once in EXPIRE_INTERVAL_SECONDS."""
        if time.monotonic() >= self._expire_at:
            self._expire_at = time.monotonic() + EXPIRE_INTERVAL_SECONDS
            self.expire(find_in_use)

    def expire(self, find_in_use: Callable[[], Collection[str]]) -> list[str]:
        """Remove images that are too old or too many, the longest unused first; return their ids."""
        removed = []
        with self._pin_lock:  # a pin that is taken later fetches anew; disks that were made before are found
            busy = {image_id for image_id, count in self._pins.items() if count > 0} | set(find_in_use())
            for image_id, path in self._expired(busy, time.time()):
                with suppress(OSError):
                    path.unlink()
                    removed.append(image_id)
        for image_id in removed:
            log.info("unused image removed: %s", image_id)
        return removed

    def _expired(self, busy: Collection[str], now: float) -> list[tuple[str, Path]]:
        found = {path: path.stat() for path in self._directory.iterdir() if path.suffix != PART}
        total = sum(seen.st_size for seen in found.values())
        chosen = []
        for path, seen in sorted(found.items(), key=lambda entry: entry[1].st_mtime):
            is_too_much = bool(self._most_bytes) and total > self._most_bytes
            if path.name not in busy and (is_too_much or now - seen.st_mtime > self._keep_seconds):
                chosen.append((path.name, path))
                total -= seen.st_size
        return chosen

    def _is_cached(self, path: Path, image: ImageSpec) -> bool:
        """Return whether the file exists and is correct; each process verifies the checksum once."""
        if not path.is_file() or (image.size and path.stat().st_size != image.size):
            return False
        if not image.checksum or image.image_id in self._checked:
            return True
        with path.open("rb") as file:
            is_right = hashlib.file_digest(file, _md5).hexdigest() == image.checksum
        if not is_right:
            log.error("the cached image %s is damaged and is fetched again", image.image_id)
        return is_right

    def _write(self, path: Path, image: ImageSpec, report: Callable[[float | None], None]) -> None:
        part = path.with_name(f"{path.name}.{os.getpid()}-{next(self._numbers)}{PART}")
        try:
            digest, size = self._copy(part, image, report)
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

    def _copy(self, part: Path, image: ImageSpec, report: Callable[[float | None], None]) -> tuple[str, int]:
        """Return MD5 digest and number of the bytes written."""
        md5, size = _md5(), 0
        with self._open_image(image.image_id) as source, part.open("xb") as target:
            while chunk := source.read(CHUNK_BYTES):
                target.write(chunk)
                md5.update(chunk)
                size += len(chunk)
                report(min(size / image.size, 1.0) if image.size else None)
            target.flush()
            os.fsync(target.fileno())
        return md5.hexdigest(), size
