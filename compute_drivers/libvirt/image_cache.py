"""Images of this host: fetched once each, checked while they are written, whole or not there."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from conductor.core.compute_driver import OpenImage
from conductor.core.errors import BuildAborted, DriverError, NotFound
from conductor.core.request_spec import ImageSpec

CHUNK_BYTES = 1 << 20
SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
PART = ".part"


class ImageCache:
    """Files under `directory`, named by image id. An image never changes, so a file that is there is the image."""

    def __init__(self, directory: Path, open_image: OpenImage) -> None:
        self._directory = directory
        self._open_image = open_image
        self._gates: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._numbers = itertools.count()

    def prepare(self) -> None:
        """Make the folder and drop what a killed process left half-written."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for part in self._directory.glob(f"*{PART}"):
            part.unlink(missing_ok=True)

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
        return path

    @staticmethod
    def _has(path: Path, image: ImageSpec) -> bool:
        return path.is_file() and (not image.size or path.stat().st_size == image.size)

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
        md5, size = hashlib.md5(usedforsecurity=False), 0
        with self._open_image(image.image_id) as source, part.open("xb") as target:
            while chunk := source.read(CHUNK_BYTES):
                target.write(chunk)
                md5.update(chunk)
                size += len(chunk)
                tell(min(size / image.size, 1.0) if image.size else None)
            target.flush()
            os.fsync(target.fileno())
        return md5.hexdigest(), size
