"""Formats of disks that plugins read and write, for the rooms that keep data."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from conductor.core.errors import DriverError, NovellaError
from conductor.core.extensions import ImageConverter
from conductor.plugins.extensions import made
from conductor.plugins.loading import registry
from conductor.plugins.time_box import TimeBox, TooLate

log = logging.getLogger(__name__)
RAW = "raw"
_boxes: dict[str, TimeBox] = {}  # what hangs is not asked before it has come back


def written() -> frozenset[str]:
    """The formats that the operator's converters write."""
    return frozenset(name for one in _in_use() for name in one.writes)


def converted(source: Path, source_format: str, target: Path, target_format: str) -> bool:
    """Whether a converter has the two formats and wrote `target`. Raises DriverError naming the one that failed."""
    for one in _in_use():
        reads = target_format == RAW and source_format in one.reads
        if reads or (source_format == RAW and target_format in one.writes):
            _convert(one, source, source_format, target, target_format)
            return True
    return False


def _convert(one: ImageConverter, source: Path, source_format: str, target: Path, target_format: str) -> None:
    box = _boxes.setdefault(one.name, TimeBox(f"image_converter {one.name}"))
    work = functools.partial(one.convert, source, source_format, target, target_format)
    try:
        box.ask(work, one.seconds)
        why = "" if target.is_file() else "it wrote nothing"
    except TooLate as late:
        why = f"it {late}"
    except NovellaError as error:
        why = error.message
    except BaseException as error:  # raised on its thread, whatever it is: the text may hold paths
        log.exception("image converter raised: name=%s", one.name)
        why = type(error).__name__
    if why:
        target.unlink(missing_ok=True)
        raise DriverError(f"The image converter {one.name} failed: {why[:120]}.")


def _in_use() -> Iterator[ImageConverter]:
    for name, options in settings.NOVELLA_EXTENSIONS.get(ImageConverter.kind, {}).items():
        try:
            one = made(registry(), ImageConverter.kind, name, options)
        except NovellaError as error:
            log.error("extension is not used: kind=%s name=%s reason=%s", ImageConverter.kind, name, error.message)
            continue
        if isinstance(one, ImageConverter):
            yield one
