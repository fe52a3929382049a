"""Formats of disks that plugins read and write, for the rooms that keep data."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from conductor.core.errors import DriverError, NovellaError
from conductor.core.extensions import Extension, ImageConverter
from conductor.plugins.extensions import ExtensionFailed

RAW = "raw"
LONGEST_WHY = 120


class Asked(Protocol):
    """An extension in use, with its time and its account."""

    @property
    def extension(self) -> Extension: ...
    def ask(self, work: Callable[[], Any], check: Callable[[Any], str]) -> Any: ...


def _nobody(kind: str) -> Sequence[Asked]:
    return ()


_in_use: Callable[[str], Sequence[Asked]] = _nobody


def ask_through(in_use: Callable[[str], Sequence[Asked]]) -> None:
    """From now on converters are those that `in_use` gives, each counted and shut out as other extensions are.

    The accounts are kept in a room above the rooms that keep data: it says so itself when the process starts.
    """
    global _in_use
    _in_use = in_use


def written() -> frozenset[str]:
    """The formats that the operator's converters write."""
    return frozenset(name for _, converter in _converters() for name in converter.writes)


def converted(source: Path, source_format: str, target: Path, target_format: str) -> bool:
    """Whether a converter has the two formats and wrote `target`. Raises DriverError naming the one that failed."""
    for one, converter in _converters():
        reads = target_format == RAW and source_format in converter.reads
        if reads or (source_format == RAW and target_format in converter.writes):
            work = functools.partial(converter.convert, source, source_format, target, target_format)
            _convert(one, converter.name, work, target)
            return True
    return False


def _convert(one: Asked, name: str, work: Callable[[], Any], target: Path) -> None:
    try:
        one.ask(work, lambda answer: "" if target.is_file() else "it wrote nothing")
        return
    except ExtensionFailed as failure:
        why = str(failure)
    except NovellaError as error:
        why = error.message
    target.unlink(missing_ok=True)
    raise DriverError(f"The image converter {name} failed: {why[:LONGEST_WHY]}.")


def _converters() -> Iterator[tuple[Asked, ImageConverter]]:
    for one in _in_use(ImageConverter.kind):
        if isinstance(one.extension, ImageConverter):
            yield one, one.extension
