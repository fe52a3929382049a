"""`novella-plugin-check`: runs the conformance tests of filters and weighers, and prints the results."""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conductor.conformance import recording
from conductor.conformance.apart import CheckProcessEnded, results_apart
from conductor.conformance.fleet import request
from conductor.conformance.plugin_laws import (
    MILLISECONDS,
    STANDARD_REQUESTS,
    Broken,
    NotTried,
    PluginUnderTest,
    laws_for,
    milliseconds,
)
from conductor.conformance.time_limits import at_most
from conductor.core.errors import NovellaError
from conductor.core.filter import Filter
from conductor.core.request_spec import ImageSpec, RequestSpec
from conductor.core.weigher import Weigher
from conductor.plugins import Registry, imported

REPORT = 1  # version of the report: an additional field does not change it
PROGRAM = "novella-plugin-check"
KEPT, BROKEN, NOT_TRIED = "kept", "broken", "not tried"
USAGE = 2  # as argparse exits
OTHER_SEED = "4711"  # hash seed of another process, for another order of sets
LONGEST_WHY = 300
GRACE_SECONDS = 5.0  # for an interrupted plugin to return
# A separate process that finds the same modules, with this environment except for the hash seed.
ELSEWHERE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from conductor.conformance.plugin_check import main
sys.exit(main(sys.argv[2:]))
"""
ANOTHER_PROCESS = "another_process_answers_alike"


class PluginRefused(Exception):
    """The command cannot run as requested; one line that says why."""


@dataclass(frozen=True)
class CheckFinding:
    """Result of one test."""

    law: str
    outcome: str
    seconds: float
    why: str = ""


@dataclass(frozen=True)
class FoundPlugin:
    """A class to test, and its origin."""

    plugin: type[Filter] | type[Weigher]
    distribution: str = ""
    version: str = ""

    @property
    def address(self) -> str:
        return f"{self.plugin.__module__}:{self.plugin.__qualname__}"


def main(words: Sequence[str] | None = None) -> int:
    """Return 0 when all tests passed, 1 when some failed, and 2 without running tests.

    A requested record that failed returns 2, too.
    """
    options = _parser().parse_args(words)
    began = datetime.now(UTC)
    try:
        if options.record and ":" in options.target:
            raise PluginRefused("--record: the catalogue has what is installed: name it, not MODULE:CLASS.")
        requests = (*STANDARD_REQUESTS, *_requests(options))
        values = dict(_value("--option", text) for text in options.option)
        found = _found(options.target)
        if options.fingerprint:  # called by another process of this command
            print(PluginUnderTest(found[0].plugin, values, requests).fingerprint())  # noqa: T201
            return 0
    except (PluginRefused, NovellaError) as refusal:
        print(f"{PROGRAM}: {refusal}", file=sys.stderr)  # noqa: T201
        return USAGE
    reports = []
    for one in found:
        own = {key: value for key, value in values.items() if len(found) == 1 or key in one.plugin.options_schema}
        subject = PluginUnderTest(one.plugin, own, requests, options.milliseconds)
        reports.append(_asked(one, subject, options))
    whole = {"report": REPORT, "began_at": began.isoformat(), "plugins": reports}
    if options.json:
        _write(options.json, whole)
    for report in reports:
        _say(report)
    if options.record:
        try:
            recording.record(whole)
        except recording.NotRecorded as reason:
            print(f"{PROGRAM}: --record: {reason}", file=sys.stderr)  # noqa: T201
            return USAGE
    return 1 if any(report["counts"][BROKEN] for report in reports) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Check that filters and weighers are pure, give the same answer each time and for all hosts as for "
        "one, change none of their inputs, and are fast for ten thousand hosts.",
    )
    parser.add_argument(
        "target", help="an installed package, its entry point, a filter or weigher by name, or MODULE:CLASS"
    )
    pairs = {"action": "append", "default": [], "metavar": "KEY=VALUE"}
    parser.add_argument("--option", help="option of the plugin, as JSON or text; repeatable", **pairs)  # type: ignore[arg-type]
    parser.add_argument("--hint", help="scheduler hint of the request to check with; repeatable", **pairs)  # type: ignore[arg-type]
    parser.add_argument("--extra-spec", help="extra spec of that request's flavor; repeatable", **pairs)  # type: ignore[arg-type]
    parser.add_argument("--property", help="property of that request's image; repeatable", **pairs)  # type: ignore[arg-type]
    parser.add_argument(
        "--request", action="append", type=Path, default=[], help="JSON file with a whole request; repeatable"
    )
    parser.add_argument(
        "--milliseconds",
        type=float,
        default=MILLISECONDS,
        help=f"limit for ten thousand hosts (default: {MILLISECONDS:g})",
    )
    parser.add_argument(
        "--check-seconds", type=float, default=60.0, help="time limit of one check (default: %(default)g)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the report")
    parser.add_argument(
        "--record", action="store_true", help="store the report in the catalogue of the configured cloud"
    )
    parser.add_argument("--fingerprint", action="store_true", help=argparse.SUPPRESS)
    return parser


def _found(target: str) -> list[FoundPlugin]:
    """Return the classes that the argument names."""
    if ":" in target:
        return [FoundPlugin(_imported(target))]
    known = imported()
    kinds: dict[str, type[Filter] | type[Weigher]] = {one.name: type(one) for one in known.loaded_filters}
    kinds |= {one.name: type(one) for one in known.loaded_weighers}
    for info in known.plugins:
        brought = (*info.filters, *info.weighers)
        wanted = brought if target in (info.name, info.distribution) else [name for name in brought if name == target]
        if wanted:
            return [FoundPlugin(kinds[name], info.distribution, info.version) for name in wanted]
    raise PluginRefused(_unknown(known, target))


def _unknown(known: Registry, target: str) -> str:
    for one in known.quarantined:
        if target in (one.name, one.distribution):
            return f"target: {one.name} of {one.distribution} is not used: {one.reason}."
    if any(target in (info.name, info.distribution) for info in known.plugins):
        return f"target: {target} brings no filter and no weigher."
    names = sorted({info.name for info in known.plugins if info.filters or info.weighers})
    return f"target: nothing that is installed is called {target[:60]}. Known: {', '.join(names) or 'none'}."


def _imported(name: str) -> type[Filter] | type[Weigher]:
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise PluginRefused(f"target: {name} cannot be imported: {error}") from None
    except (Exception, SystemExit) as error:
        raise PluginRefused(f"target: {module} raises {type(error).__name__} when it is imported: {error}") from None
    if not (inspect.isclass(kind) and issubclass(kind, Filter | Weigher)):
        raise PluginRefused(f"target: {name} is no subclass of Filter or Weigher.")
    return kind


def _requests(options: argparse.Namespace) -> Iterator[RequestSpec]:
    for path in options.request:
        try:
            yield RequestSpec.from_json(json.loads(path.read_text()))
        except OSError as error:
            raise PluginRefused(f"--request: {path} cannot be read: {error.strerror}.") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise PluginRefused(f"--request: {path} is no request: {error}") from None
    hints: dict[str, list[str]] = {}
    for key, value in (_split("--hint", text) for text in options.hint):
        hints.setdefault(key, []).append(value)
    specs = dict(_split("--extra-spec", text) for text in options.extra_spec)
    properties = dict(_split("--property", text) for text in options.property)
    if hints or specs or properties:
        yield request(specs, scheduler_hints=hints, image=ImageSpec("image", properties=properties))


def _split(option: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise PluginRefused(f"{option}: {text[:60]} is not KEY=VALUE.")
    return key, value


def _value(option: str, text: str) -> tuple[str, Any]:
    key, value = _split(option, text)
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _asked(one: FoundPlugin, subject: PluginUnderTest, options: argparse.Namespace) -> dict[str, Any]:
    """Return the report on one plugin, as JSON values."""
    laws: list[tuple[str, Callable[[], None]]]
    laws = [(law.__name__, functools.partial(law, subject)) for law in laws_for(subject)]
    laws.append((ANOTHER_PROCESS, lambda: _ask_elsewhere(one, subject, options)))
    findings = [_judged(name, law, options.check_seconds) for name, law in laws]
    *_, took = _outcome_of(lambda: milliseconds(subject), options.check_seconds)
    outcomes = [finding.outcome for finding in findings]
    return {
        "plugin": one.plugin.name or one.plugin.__name__,
        "kind": "filter" if subject.is_filter else "weigher",
        "class": one.address,
        "distribution": one.distribution,
        "version": one.version,
        "milliseconds_per_10000_hosts": None if took is None else round(took, 2),
        "counts": {outcome: outcomes.count(outcome) for outcome in (KEPT, BROKEN, NOT_TRIED)},
        "laws": [asdict(finding) for finding in findings],
    }


def _judged(name: str, law: Callable[[], Any], seconds: float) -> CheckFinding:
    began = time.perf_counter()
    outcome, why, _ = _outcome_of(law, seconds)
    return CheckFinding(name, outcome, round(time.perf_counter() - began, 3), " ".join(why.split())[:LONGEST_WHY])


def _outcome_of(law: Callable[[], Any], seconds: float) -> tuple[str, str, Any]:
    """Run a test in a process of its own, as a plugin may end that. Return its result, the reason and its value."""
    try:
        ((outcome, why, value),) = results_apart(lambda report: report(_came_of(law, seconds)), seconds + GRACE_SECONDS)
    except CheckProcessEnded as error:
        return BROKEN, str(error), None
    return outcome, why, value


def _came_of(law: Callable[[], Any], seconds: float) -> tuple[str, str, Any]:
    try:
        with at_most(seconds, Broken(f"it took longer than {seconds:g} seconds")):
            return KEPT, "", law()
    except NotTried as error:
        return NOT_TRIED, str(error), None
    except Broken as error:
        return BROKEN, str(error), None
    except BaseException as error:  # a plugin may raise anything, even exceptions that end processes
        return BROKEN, f"it raised {type(error).__name__}: {error}", None


def _ask_elsewhere(one: FoundPlugin, subject: PluginUnderTest, options: argparse.Namespace) -> None:
    """Compute the fingerprint in a new process with another order of sets: the scheduler runs in many processes."""
    words = ["env", f"PYTHONHASHSEED={OTHER_SEED}", sys.executable, "-c", ELSEWHERE, json.dumps(sys.path)]
    words += [one.address, "--fingerprint"]
    for name in ("option", "hint", "extra_spec", "property", "request"):
        for value in getattr(options, name):
            words += [f"--{name.replace('_', '-')}", str(value)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=options.check_seconds)
    if done.returncode:
        raise Broken(f"in another process it cannot be asked: {done.stderr.strip()[-LONGEST_WHY:]}")
    if done.stdout.split()[-1:] != [subject.fingerprint()]:
        raise Broken("in another process it answers otherwise: it goes by the order of a set, or by that process")


def _write(path: Path, found: Mapping[str, Any]) -> None:
    """Write atomically: a catalogue may read the file meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(found, indent=1) + "\n")
    os.replace(part, path)


def _say(report: Mapping[str, Any]) -> None:
    lines = [f"{law['outcome']}: {law['law']}: {law['why']}" for law in report["laws"] if law["outcome"] != KEPT]
    counts = ", ".join(f"{count} {outcome}" for outcome, count in report["counts"].items())
    took = report["milliseconds_per_10000_hosts"]
    speed = "" if took is None else f"; {took:g} ms for 10,000 hosts"
    print("\n".join([*lines, f"{report['kind']} {report['plugin']}: {counts}{speed}"]))  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
