"""Image converters: disk formats that the cloud does not store itself."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from conductor.core.extensions.base import Extension


class ImageConverter(Extension):
    """Writes a disk of one of `reads` as raw data, or raw data as one of `writes`.

    The file is untrusted: follow no path that it names.
    """

    kind: ClassVar[str] = "image_converter"
    method: ClassVar[str] = "convert"
    seconds: ClassVar[float] = 3600.0
    reads: ClassVar[frozenset[str]] = frozenset()
    writes: ClassVar[frozenset[str]] = frozenset()

    def convert(self, source: Path, source_format: str, target: Path, target_format: str) -> None:
        """Write `target`, which does not exist yet; one of the two formats is `raw`. Raise for what cannot be read."""
        raise NotImplementedError
