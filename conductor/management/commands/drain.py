"""`novella drain HOST`: drain a host for maintenance, and watch the progress."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from conductor.core.context import system_context
from conductor.core.errors import NovellaError
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.manual import ManualCommand
from conductor.services.fleet import drains, host_actions
from conductor.services.fleet.drains import DrainRequest, DrainView
from conductor.services.operations.announcements import moment

LOOK_EVERY_SECONDS = 2.0
NOT_EMPTY = 2
ACTIONS = {
    "pause": "begin no further moves until the drain is resumed",
    "resume": "continue a paused drain, or one after its deadline",
    "stop": "end the drain and leave the host closed",
    "cancel": "end the drain and open the host",
}
UNSAID = "asked for on the command line"


class Command(ManualCommand):
    help = (
        "Move all servers off a compute host and schedule no new ones to it. Conductors do the work; the command "
        "starts it and shows its progress."
    )
    requires_system_checks = []
    exit_codes = {
        0: "The host is empty, or, without --wait, the drain has begun.",
        1: "The drain was refused; the reason is printed.",
        2: "With --wait: the drain ended with servers left on the host.",
    }
    examples = {
        "drain rack1-03 --dry-run": "Print where each server would go.",
        "drain rack1-03 --allow-cold --reason 'new memory' --wait": "Empty the host and wait until it is empty.",
        "drain rack1-03 --open": "Open the host again after its maintenance.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("host", help="name of the host")
        parser.add_argument(
            "--most-at-once",
            type=int,
            default=DrainRequest().most_at_once,
            metavar="N",
            help="servers that move at once, 1 to 100",
        )
        parser.add_argument(
            "--allow-cold", action="store_true", help="also move servers that must be powered off for it"
        )
        parser.add_argument(
            "--no-cold", action="store_true", help="move only what can move while it runs; this is the default"
        )
        parser.add_argument(
            "--deadline", default="", metavar="TIME", help="time after which no move begins; UTC if it has no zone"
        )
        parser.add_argument("--reason", default="", help="reason, which is stored in the audit log")
        parser.add_argument(
            "--note", default="", metavar="TEXT", help="note about the maintenance, shown with the host"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="print where each server would go, and change nothing"
        )
        parser.add_argument("--wait", action="store_true", help="wait until the drain ends")
        for action in drains.ACTIONS:
            parser.add_argument(f"--{action}", action="store_true", help=ACTIONS[action])
        parser.add_argument("--open", action="store_true", help="end the maintenance and open the host to new servers")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._handle(options["host"], options)
        except NovellaError as error:
            raise CommandError(error.message) from None

    def _handle(self, host: str, options: dict[str, Any]) -> None:
        context = system_context()
        until = moment(options["deadline"], "deadline_at") if options["deadline"] else None
        requested = DrainRequest(options["most_at_once"], options["allow_cold"] and not options["no_cold"], until)
        query = [action for action in drains.ACTIONS if options[action]]
        if options["dry_run"]:
            plan = [asdict(row) for row in drains.preview(context, host, requested)]
            self._say(options, {"plan": plan}, [f"{row['name']}: {row['how'] or row['reason']}" for row in plan])
        elif options["open"]:
            drains.open_again(context, host)
            self._say(options, {"host": host, "is_disabled": False}, [f"{host} takes new work."])
        elif query:
            host_actions.steer(context, host, query[0], deadline_at=until)
            self._show(options, drains.get(context, host))
        else:
            host_actions.drain(context, host, requested, reason=options["reason"] or UNSAID)
            if options["note"]:
                host_actions.note(context, host, options["note"])
            self._show(options, self._wait(host) if options["wait"] else drains.get(context, host))

    def _wait(self, host: str) -> DrainView:
        """Poll until the drain has ended; conductors do the work."""
        while True:
            view = drains.get(system_context(), host)
            if view.state not in LIVE_RUN_STATES:
                return view
            time.sleep(LOOK_EVERY_SECONDS)

    def _show(self, options: dict[str, Any], view: DrainView) -> None:
        lines = [f"{view.host}: {view.state}, {view.moved} moved, {view.moving} on their way, {len(view.left)} left"]
        lines += [f"  {row.name}: {row.reason or row.how}" for row in view.left]
        self._say(options, asdict(view), lines)
        if options["wait"] and view.state != RunState.DONE:
            sys.exit(NOT_EMPTY)

    def _say(self, options: dict[str, Any], body: dict[str, Any], lines: list[str]) -> None:
        self.stdout.write(json.dumps(body, indent=2, default=str) if options["json"] else "\n".join(lines))
