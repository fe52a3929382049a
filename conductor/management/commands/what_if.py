"""`novella what_if launch|drain …`: evaluate a launch or drain without changing anything."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from django.core.management.base import CommandError

from conductor.core.context import RequestContext, system_context
from conductor.core.errors import NovellaError
from conductor.core.scheduling.what_if import FleetChange, NewHosts
from conductor.manual import ManualCommand, add_action
from conductor.services.fleet.drains import DrainRequest
from conductor.services.scheduling import what_if
from conductor.services.scheduling.what_if import DrainPreview, FitView
from conductor.services.servers.types import InstanceCreate

DOES_NOT_FIT = 2
FLAVOR_NUMBERS = ("vcpus", "memory_mb", "root_gb")


class Command(ManualCommand):
    help = (
        "Ask the scheduler where servers would go, without changing anything. It answers whether servers of a "
        "flavor would find hosts, or where the servers of a host would go."
    )
    requires_system_checks = []
    exit_codes = {
        0: "Everything fits.",
        1: "The question was refused; the reason is printed.",
        2: "Something does not fit.",
    }
    examples = {
        "what_if launch --flavor 2 --image UUID --count 10": "Try to place ten servers.",
        "what_if drain rack1-03 --remove rack1-04": "Try to empty a host while another one is gone.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        kinds = parser.add_subparsers(dest="kind", required=True)
        launch = add_action(kinds, "launch", "try to place new servers")
        launch.add_argument("--flavor", required=True, help="id of the flavor")
        launch.add_argument("--image", required=True, help="id of the image")
        launch.add_argument("--count", type=int, default=1, metavar="N", help="number of servers, 1 to 1000")
        launch.add_argument("--project", default="", help="id of the project whose quota counts")
        launch.add_argument("--zone", default="", help="availability zone")
        for name in FLAVOR_NUMBERS:
            flag = f"--{name.replace('_', '-')}"
            launch.add_argument(flag, type=int, metavar="N", help=f"value to use instead of the flavor's {name}")
        drain = add_action(kinds, "drain", "try to empty a host")
        drain.add_argument("host", help="name of the host")
        drain.add_argument(
            "--allow-cold", action="store_true", help="also move servers that must be powered off for it"
        )
        drain.add_argument(
            "--no-cold", action="store_true", help="move only what can move while it runs; this is the default"
        )
        for one in (launch, drain):
            one.add_argument(
                "--add", action="append", default=[], metavar="N[:HOST]", help="add N empty hosts, like HOST"
            )
            for change in ("remove", "enable", "disable"):
                one.add_argument(
                    f"--{change}", action="append", default=[], metavar="HOST", help=f"{change} this host; repeatable"
                )
            one.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            fleet = _fleet(options)
            if options["kind"] == "launch":
                fit = what_if.launch(_caller(options), _requested(options), fleet=fleet, flavor=_flavor(options))
                fits, body, lines = fit.would_be_done, asdict(fit), _fit_lines(fit)
            else:
                requested = DrainRequest(allows_cold=options["allow_cold"] and not options["no_cold"])
                found = what_if.drain(system_context(), options["host"], requested, fleet=fleet)
                fits, body, lines = not found.staying, asdict(found), _drain_lines(found)
        except NovellaError as error:
            raise CommandError(error.message) from None
        self.stdout.write(json.dumps(body, indent=2) if options["json"] else "\n".join(lines))
        if not fits:
            sys.exit(DOES_NOT_FIT)


def _caller(options: Mapping[str, Any]) -> RequestContext:
    context = system_context()
    return replace(context, project_id=options["project"]) if options["project"] else context


def _requested(options: Mapping[str, Any]) -> InstanceCreate:
    count = options["count"]
    if not 1 <= count <= 1000:
        raise CommandError(f"--count {count}: ask about 1 to 1000 servers.")
    return InstanceCreate(
        name="what-if",
        flavor_ref=options["flavor"],
        image_ref=options["image"],
        min_count=count,
        max_count=count,
        availability_zone=options["zone"],
    )


def _flavor(options: Mapping[str, Any]) -> dict[str, int]:
    changes = {name: options[name] for name in FLAVOR_NUMBERS if options[name] is not None}
    for name, value in changes.items():
        if value < 0:
            raise CommandError(f"--{name.replace('_', '-')} {value}: it must be at least 0.")
    return changes


def _fleet(options: Mapping[str, Any]) -> FleetChange:
    return FleetChange(
        add=tuple(_new_hosts(text) for text in options["add"]),
        remove=tuple(options["remove"]),
        enable=tuple(options["enable"]),
        disable=tuple(options["disable"]),
    )


def _new_hosts(text: str) -> NewHosts:
    count, _, like = text.partition(":")
    if not (count.isascii() and count.isdigit() and 1 <= len(count) <= 5 and int(count)):
        raise CommandError(f"--add {text}: it is a number of hosts, and with a colon the host that they are like.")
    return NewHosts(int(count), like)


def _fit_lines(fit: FitView) -> list[str]:
    head = f"{fit.placed} of {fit.num_instances} find a host."
    lines = [head, *(f"Refused by {one.rule}: {one.message}" for one in fit.refusals), *fit.advice]
    lines += [str(one["text"]) for one in fit.fits_if]
    return lines + [f"  {host}" for host in fit.hosts]


def _drain_lines(found: DrainPreview) -> list[str]:
    lines = [f"{found.host}: {found.moved} would go, {found.staying} would stay"]
    return lines + [
        f"  {one.name}: {one.how} to {one.host}" if one.host else f"  {one.name}: {one.reason}" for one in found.guests
    ]
