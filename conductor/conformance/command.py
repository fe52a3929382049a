"""`novella-driver-conformance`: tests a compute driver by its capabilities, and prints its level."""

from __future__ import annotations

import argparse
import importlib
import inspect
import io
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from conductor.conformance import asked, base, recorder, recording
from conductor.conformance.report import BROKEN, FULL, LEVELS, Law, report
from conductor.core.compute_driver import ComputeDriver
from conductor.core.errors import NovellaError
from conductor.core.request_spec import ImageSpec
from conductor.plugins import imported

USAGE = 2  # as argparse exits


class CommandRefused(Exception):
    """The command cannot run as requested; one line that says why."""


def main(words: Sequence[str] | None = None) -> int:
    """Return 0 when all tests passed and the wanted level is reached, 1 when not, and 2 without running tests.

    A requested record that failed returns 2, too.
    """
    options = _parser().parse_args(words)
    try:
        if options.record and ":" in options.driver:
            raise CommandRefused("--record: the catalogue has what is installed: name the driver, not MODULE:CLASS.")
        kind, about = _found(options.driver)
        subject = _subject(kind, options)
    except (CommandRefused, NovellaError) as refusal:
        print(f"novella-driver-conformance: {refusal}", file=sys.stderr)  # noqa: T201
        return USAGE
    began, clock = datetime.now(UTC), time.monotonic()
    suite = Path(inspect.getfile(asked))
    laws = recorder.run(suite, subject, options.check_seconds)
    about |= {"began_at": began.isoformat(), "seconds": round(time.monotonic() - clock, 1)}
    found = report(laws, subject.driver.capabilities, about)
    if options.json:
        _write(options.json, found)
    _say(found, laws)
    if options.record and not _is_recorded(found):
        return USAGE
    reached = options.level in (None, *found["levels"])
    return 0 if reached and not found["counts"][BROKEN] and found["levels"] else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="novella-driver-conformance",
        description="Check everything that a compute driver's capabilities name: repeated, reordered and stale "
        "commands, faults, and a killed process. The checks create and remove guests on its host.",
    )
    parser.add_argument("driver", help="the name of an installed driver, or MODULE:CLASS")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="option of the driver, as JSON or text; repeatable",
    )
    parser.add_argument("--host", default="conformance-1", help="the name of the host")
    parser.add_argument("--other-host", default="conformance-2", help="the name of a second host, for moves of guests")
    parser.add_argument(
        "--other-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="option that differs on the second host; repeatable",
    )
    parser.add_argument("--image", type=Path, help="disk image of the guests (default: an empty one)")
    parser.add_argument("--image-format", default="raw", help="the format of the disk")
    parser.add_argument(
        "--check-seconds", type=float, default=300.0, help="time limit of one check (default: %(default)g)"
    )
    parser.add_argument("--level", choices=[*LEVELS], help=f"the level to reach, up to {FULL}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the report")
    parser.add_argument(
        "--record", action="store_true", help="store the report in the catalogue of the configured cloud"
    )
    return parser


def _is_recorded(found: Mapping[str, Any]) -> bool:
    try:
        recording.record(found)
    except recording.NotRecorded as reason:
        print(f"novella-driver-conformance: --record: {reason}", file=sys.stderr)  # noqa: T201
        return False
    return True


def _found(name: str) -> tuple[type[ComputeDriver], dict[str, Any]]:
    """Return the class, and the report's data on its origin."""
    if ":" in name:
        kind, source = _imported(name), None
    else:
        drivers = imported().drivers
        if name not in drivers:
            known = ", ".join(sorted(drivers)) or "none"
            shut_out = "".join(f" {one.distribution} is not used: {one.reason}." for one in imported().quarantined)
            raise CommandRefused(f"driver: no plugin brings {name}. Known: {known}.{shut_out}")
        kind, source = drivers[name], imported().source_of("driver", name)
    return kind, {
        "driver": kind.name or name,
        "class": f"{kind.__module__}:{kind.__qualname__}",
        "distribution": source.distribution if source else "",
        "version": source.version if source else "",
    }


def _imported(name: str) -> type[ComputeDriver]:
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise CommandRefused(f"driver: {name} cannot be imported: {error}") from None
    except (Exception, SystemExit) as error:
        raise CommandRefused(f"driver: {module} raises {type(error).__name__} when it is imported: {error}") from None
    if not (inspect.isclass(kind) and issubclass(kind, ComputeDriver)):
        raise CommandRefused(f"driver: {name} is no subclass of ComputeDriver.")
    return kind


def _subject(kind: type[ComputeDriver], options: argparse.Namespace) -> recorder.DriversUnderTest:
    image, data = ImageSpec("image", disk_format=options.image_format, container_format="bare"), b""
    if options.image is not None:
        try:
            data = options.image.read_bytes()
        except OSError as error:
            raise CommandRefused(f"--image: {options.image} cannot be read: {error.strerror}.") from None
        image = replace(image, size=len(data))

    def open_image(image_id: str) -> BinaryIO:
        return io.BytesIO(data)

    own = _options(options.option)
    driver = kind(options.host, own, open_image)
    other = kind(options.other_host, own | _options(options.other_option), open_image)
    return recorder.DriversUnderTest(driver, other, replace(base.small_guest(""), image=image))


def _options(texts: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise CommandRefused(f"--option: {text[:60]} is not KEY=VALUE.")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def _write(path: Path, found: Mapping[str, Any]) -> None:
    """Write atomically: a catalogue may read the file meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(found, indent=1) + "\n")
    os.replace(part, path)


def _say(found: Mapping[str, Any], laws: Sequence[Law]) -> None:
    lines = [f"broken: {law.name}: {law.why}" for law in laws if law.outcome == BROKEN]
    counts = ", ".join(f"{count} {outcome}" for outcome, count in found["counts"].items())
    lines += [f"{found['driver']}: {counts}", f"level: {found['level']} ({', '.join(found['levels']) or 'no level'})"]
    print("\n".join(lines))  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
