"""`novella plugins`: lists plugins and changes their settings while the cloud runs."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import CommandError
from django.db import DatabaseError

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import system_context
from conductor.core.errors import NovellaError
from conductor.core.extensions import BY_KIND
from conductor.core.plugin_choice import FILTER, KINDS, WEIGHER
from conductor.management import preflight
from conductor.manual import ManualCommand, add_action
from conductor.plugins import registry
from conductor.services.plugins import catalog, conformance_records, details, plugins
from conductor.services.plugins.catalog import MetricsView, PluginView
from conductor.services.plugins.details import PluginDetail
from conductor.services.plugins.plugins import PluginSettingsChange


class Command(ManualCommand):
    help = (
        "List filters and weighers and choose which run, in which order. Their options can be set, too. Every "
        "scheduler follows at its next decision."
    )
    requires_system_checks = []
    exit_codes = {
        0: "The command succeeded.",
        1: "Something was refused; nothing is changed.",
    }
    examples = {
        "plugins list --kind filter": "List the filters in the order in which they run.",
        "plugins set RAMWeigher --multiplier 2.0": "Give a weigher twice its weight.",
        "plugins quarantine RackFilter --reason 'it hangs' --seconds 3600": "Stop using a plugin for an hour.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = add_action(actions, "list", "list all plugins, in the order in which they run")
        listing.add_argument("--kind", choices=KINDS, default="", help="only plugins of this kind")
        showing = add_action(actions, "show", "show one plugin: its metrics, last errors and log lines")
        showing.add_argument("name", help="name of the plugin")
        showing.add_argument("--kind", default="", help="kind of the plugin, if several kinds have that name")
        recording = add_action(actions, "record", "store the report of a conformance command in the catalogue")
        recording.add_argument("file", type=Path, help="file with the report")
        for name, text in (("enable", "let plugins run"), ("disable", "stop plugins from running")):
            switching = add_action(actions, name, text)
            switching.add_argument("name", nargs="+", help="name of a plugin")
        order = add_action(actions, "order", "set which plugins run first; without names, the default order")
        order.add_argument("kind", choices=KINDS, help="kind of the plugins")
        order.add_argument("name", nargs="*", help="names, in order")
        setting = add_action(actions, "set", "set options of a plugin, as KEY=VALUE with the value as JSON or text")
        setting.add_argument("name", help="name of the plugin")
        setting.add_argument("option", nargs="*", metavar="KEY=VALUE", help="an option and its value")
        setting.add_argument(
            "--default", action="append", default=[], metavar="KEY", help="reset this option to its default"
        )
        setting.add_argument("--mode", help="decides, or shadow: it runs and is recorded, but does not decide")
        setting.add_argument("--on-failure", help="for a filter: `reject` or `let pass` the hosts for which it fails")
        setting.add_argument("--multiplier", type=float, help="for a weigher: its multiplier")
        shutting = add_action(actions, "quarantine", "stop using a plugin")
        shutting.add_argument("name", help="name of the plugin")
        shutting.add_argument("--reason", required=True, help="reason, which is stored")
        shutting.add_argument("--seconds", type=float, default=0.0, help="duration; 0: until it is released")
        releasing = add_action(actions, "release", "use a plugin again")
        releasing.add_argument("name", help="name of the plugin")
        releasing.add_argument("--reason", default="", help="reason, which is stored")
        for one in actions.choices.values():
            one.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            action = "show_one" if options["action"] == "show" else options["action"]
            getattr(self, f"_{action}")(options)
        except NovellaError as error:
            field = error.details.get("field", "")
            raise CommandError(f"{field}: {error.message}" if field else error.message) from None
        except DatabaseError:  # a plugin's author may never have created the databases
            preflight.require_schema([API_ALIAS])
            raise

    def _list(self, options: dict[str, Any]) -> None:
        found = catalog.catalogue(system_context(), options["kind"])
        shut_out = [f"{one.name} of {one.distribution} is not used: {one.reason}" for one in found.shut_out]
        self._show(options, [*found.plugins], shut_out)

    def _show_one(self, options: dict[str, Any]) -> None:
        found = details.detail(system_context(), self._kind_of(options), options["name"])
        if options["json"]:
            self.stdout.write(json.dumps(asdict(found), indent=2, default=str))
            return
        self.stdout.write("\n".join([_line(found.plugin), *lines_about(found)]))

    def _kind_of(self, options: dict[str, Any]) -> str:
        """Return the kind of any plugin in the catalog: including extensions, drivers and sinks."""
        kinds = [one.kind for one in catalog.catalogue(system_context()).plugins if one.name == options["name"]]
        if len(kinds) > 1 and not options["kind"]:
            refuse(f"{options['name']} is of several kinds: say which by --kind ({', '.join(kinds)}).")
        return options["kind"] or next(iter(kinds), FILTER)

    def _record(self, options: dict[str, Any]) -> None:
        path: Path = options["file"]
        try:
            report = json.loads(path.read_bytes())
        except OSError as error:
            refuse(f"{path}: it cannot be read: {error.strerror}.")
        except ValueError:
            refuse(f"{path}: it is no JSON: give what a conformance command wrote by --json.")
        keys = conformance_records.record(system_context(), report)
        found = catalog.catalogue(system_context()).plugins
        self._show(options, [one for one in found if (one.kind, one.name) in keys], [])

    def _enable(self, options: dict[str, Any]) -> None:
        self._switch(options, True)

    def _disable(self, options: dict[str, Any]) -> None:
        self._switch(options, False)

    def _switch(self, options: dict[str, Any], is_enabled: bool) -> None:
        wanted = PluginSettingsChange(is_enabled=is_enabled, keys=frozenset({"is_enabled"}))
        kinds = {kind_of(name) for name in options["name"]}
        if len(kinds) > 1:
            refuse("Name filters, or weighers, but not both at once.")
        self._change(options, kinds.pop(), plugins=dict.fromkeys(options["name"], wanted))

    def _order(self, options: dict[str, Any]) -> None:
        self._change(options, options["kind"], order=options["name"])

    def _set(self, options: dict[str, Any]) -> None:
        values = dict(_parsed(text) for text in options["option"]) | dict.fromkeys(options["default"])
        requests = {"mode": options["mode"], "on_failure": options["on_failure"], "multiplier": options["multiplier"]}
        given = {key: value for key, value in requests.items() if value is not None}
        if values:
            given["options"] = values
        if not given:
            refuse("Say what to set: KEY=VALUE, --default, --mode, --on-failure or --multiplier.")
        change = PluginSettingsChange(**given, keys=frozenset(given))
        self._change(options, kind_of(options["name"]), plugins={options["name"]: change})

    def _quarantine(self, options: dict[str, Any]) -> None:
        name, kind = options["name"], kind_of(options["name"])
        plugins.quarantine(system_context(), kind, name, reason=options["reason"], seconds=options["seconds"])
        self._show_some(options, kind, [name])

    def _release(self, options: dict[str, Any]) -> None:
        kind = kind_of(options["name"])
        plugins.release(system_context(), kind, options["name"], reason=options["reason"])
        self._show_some(options, kind, [options["name"]])

    def _change(self, options: dict[str, Any], kind: str, **requested: Any) -> None:
        plugins.change(system_context(), kind, **requested)
        self._show_some(options, kind, requested.get("plugins"))

    def _show_some(self, options: dict[str, Any], kind: str, names: Any) -> None:
        found = catalog.catalogue(system_context(), kind).plugins
        self._show(options, [one for one in found if names is None or one.name in names], [])

    def _show(self, options: dict[str, Any], views: list[PluginView], besides: list[str]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps({"plugins": [asdict(one) for one in views]}, indent=2, default=str))
            return
        self.stdout.write("\n".join([*(_line(one) for one in views), *besides]))


def kind_of(name: str) -> str:
    """Return a plugin's kind by its name, which is unique within a kind."""
    found = registry()
    kinds = [kind for kind in KINDS if name in plugins.by_name(found, kind)]
    if len(kinds) > 1:
        refuse(f"{name} is both a filter and a weigher: use the API, which names the kind.")
    extensions = [kind for kind in BY_KIND if name in found.extensions.get(kind, {})]
    if extensions and not kinds:
        return extensions[0]
    return kinds[0] if kinds else WEIGHER if name.endswith("Weigher") else FILTER


def refuse(text: str) -> NoReturn:
    raise CommandError(text)


def _parsed(text: str) -> tuple[str, Any]:
    """Parse KEY=VALUE; a value that is no JSON is a text."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        refuse(f"{text}: write KEY=VALUE, such as max_io_ops_per_host=8.")
    try:
        return key, json.loads(value, parse_constant=lambda word: refuse(f"{key}: {word} is no number."))
    except ValueError:
        return key, value


def _line(one: PluginView) -> str:
    place = f"{one.position:>3}" if one.position else "  –"
    messages = [f"{place} {one.kind:<10} {one.name:<36} {one.state:<14} {one.distribution} {one.version}".rstrip()]
    messages += [f"{option.name}={json.dumps(option.value)}" for option in one.options if option.source == "chosen"]
    if one.quarantine is not None:
        messages.append(f"({one.quarantine.reason})")
    if one.conformance is not None:
        of_other = "" if one.conformance.is_current else f" with version {one.conformance.version or 'unknown'}"
        messages.append(
            f"[conformance: {one.conformance.level}, checked{of_other} on {one.conformance.shown_at:%Y-%m-%d}]"
        )
    return " ".join(messages)


def lines_about(found: PluginDetail) -> list[str]:
    """Return the lines that `show` prints below the plugin's own line."""
    messages = [f"warning: {line}" for line in found.plugin.warnings]
    for title, metrics in (("last 24 hours", found.plugin.metrics), ("since the full hour", found.plugin.this_hour)):
        if metrics is not None:
            messages.append(f"{title}: {_figures(metrics)}")
    checks = found.plugin.conformance
    if checks is not None:
        messages.append(
            f"conformance: {checks.level}; {checks.kept} passed, {len(checks.broken)} failed, {checks.untried} not run"
        )
        messages += [f"  failed: {name}" for name in checks.broken]
    messages += [
        f"error: {_moment(one.last_at)} {one.error} {_at(one.place)}{_times(one.times)}" for one in found.faults
    ]
    messages += [f"shadow: {_moment(one.at)} {one.text} (workflow {one.run_uuid})" for one in found.differences]
    messages += [f"log: {_moment(one.at)} {one.level} {one.text}{_times(one.times)}" for one in found.lines]
    return messages


def _figures(metrics: MetricsView) -> str:
    words = [f"{metrics.calls} calls", f"{metrics.rejected} hosts rejected", f"{metrics.faults} failures"]
    words += [f"{metrics.overruns} overruns", f"{metrics.differed} different decisions in shadow mode"]
    if metrics.p50_ms is not None and metrics.p99_ms is not None:
        words.append(f"p50 {metrics.p50_ms:.2f} ms, p99 {metrics.p99_ms:.2f} ms")
    return ", ".join(words)


def _moment(at: datetime) -> str:
    return at.isoformat(sep=" ", timespec="seconds")


def _at(place: str) -> str:
    return f"at {place}" if place else ""


def _times(times: int) -> str:
    return f" ({times} times)" if times > 1 else ""
