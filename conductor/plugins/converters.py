"""Image converters of plugins, for the stores of images and volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from conductor.core.errors import DriverError, NovellaError
from conductor.core.extensions import Extension, ImageConverter
from conductor.plugins.extensions import ExtensionFailed

RAW = "raw"
LONGEST_WHY = 120


class ExtensionCall(Protocol):
    """An extension that is called within its time limit, and with its statistics."""

    @property
    def extension(self) -> Extension: ...
    def ask(self, *args: Any, check: Callable[[Any], str]) -> Any: ...


def _no_extensions(kind: str) -> Sequence[ExtensionCall]:
    return ()


_in_use: Callable[[str], Sequence[ExtensionCall]] = _no_extensions


def ask_through(in_use: Callable[[str], Sequence[ExtensionCall]]) -> None:
    """Set the source of converters, which counts and quarantines their calls like those of other extensions.

    The statistics are in a layer above the stores. That layer registers itself here when the process starts.
    """
    global _in_use
    _in_use = in_use


def written() -> frozenset[str]:
    """Return the formats that the operator's converters write."""
    return frozenset(name for _, converter in _converters() for name in converter.writes)


def converted(source: Path, source_format: str, target: Path, target_format: str) -> bool:
    """Whether a converter handles both formats and wrote `target`. Raises DriverError naming the one that failed."""
    for one, converter in _converters():
        reads = target_format == RAW and source_format in converter.reads
        if reads or (source_format == RAW and target_format in converter.writes):
            _convert(one, converter.name, (source, source_format, target, target_format))
            return True
    return False


def _convert(one: ExtensionCall, name: str, args: tuple[Path, str, Path, str]) -> None:
    target = args[2]
    try:
        one.ask(*args, check=lambda answer: "" if target.is_file() else "it wrote nothing")
        return
    except ExtensionFailed as failure:
        why = str(failure)
    except NovellaError as error:
        why = error.message
    target.unlink(missing_ok=True)
    raise DriverError(f"The image converter {name} failed: {why[:LONGEST_WHY]}.")


def _converters() -> Iterator[tuple[ExtensionCall, ImageConverter]]:
    for one in _in_use(ImageConverter.kind):
        if isinstance(one.extension, ImageConverter):
            yield one, one.extension
