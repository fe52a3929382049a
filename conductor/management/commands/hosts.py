"""`novella hosts`: enrolment and keys of compute hosts."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from conductor.core.context import system_context
from conductor.core.errors import NovellaError
from conductor.management.compute_process import HOST_NAME
from conductor.management.redeeming import redeem
from conductor.manual import ManualCommand, add_action
from conductor.rpc import identities
from conductor.services.hosts import keys


class Command(ManualCommand):
    help = "Enroll compute hosts, replace and revoke their keys. Hosts and conductors sign every message with a key."
    requires_system_checks = []
    examples = {
        "hosts enroll rack1-03 --cell cell1": "Create a key for a host and write its identity file.",
        "hosts enroll rack1-03 --cell cell1 --token": "Create a token; the host then runs `hosts redeem`.",
        "hosts redeem --url https://cloud.example --token TOKEN": "On the host: create its key and register it.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        enroll = add_action(
            actions, "enroll", "create a key for each host, or a token with which the host registers its own"
        )
        enroll.add_argument("hosts", nargs="+", metavar="host", help="name of a host")
        enroll.add_argument("--cell", required=True, help="cell to which the host belongs")
        enroll.add_argument("--file", type=Path, help="where to write the identity (default: in NOVELLA_DATA)")
        enroll.add_argument("--token", action="store_true", help="create a one-time token instead of a key")
        enroll.add_argument("--seconds", type=float, default=keys.TOKEN_SECONDS, help="how long the token is valid")
        redeeming = add_action(actions, "redeem", "on the host: create a key and register it with a one-time token")
        redeeming.add_argument("--url", required=True, help="address of the portal, such as https://cloud.example")
        redeeming.add_argument("--token", required=True, help="the token that `hosts enroll --token` printed")
        listing = add_action(actions, "list", "show the keys of all hosts")
        listing.add_argument("--json", action="store_true", help="print JSON")
        for name, text in (("rotate", "make a host replace its key"), ("revoke", "delete every key of a host")):
            add_action(actions, name, text).add_argument("host", help="name of the host")
        conductors = add_action(actions, "rotate-conductors", "create the next key of the conductors")
        conductors.add_argument(
            "--after",
            type=float,
            default=keys.ROTATE_AFTER_SECONDS,
            metavar="SECONDS",
            help=f"time until the new key signs (default: {keys.ROTATE_AFTER_SECONDS:g})",
        )
        conductors.add_argument(
            "--keep-old",
            type=float,
            default=keys.KEEP_OLD_SECONDS,
            metavar="SECONDS",
            help=f"time for which the old key is accepted after that (default: {keys.KEEP_OLD_SECONDS:g})",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        acts: Mapping[str, Callable[[dict[str, Any]], None]] = {
            "enroll": self._enroll,
            "redeem": self._redeem,
            "list": self._list,
            "rotate": self._rotate,
            "revoke": self._revoke,
            "rotate-conductors": self._rotate_conductors,
        }
        try:
            acts[options["action"]](options)
        except NovellaError as error:
            raise CommandError(error.message) from None

    def _enroll(self, options: dict[str, Any]) -> None:
        for host in options["hosts"]:
            if not HOST_NAME.fullmatch(host):
                raise CommandError(f'"{host}" is not a name (letters, digits, dots, dashes and underscores).')
        if options["file"] is not None and len(options["hosts"]) > 1:
            raise CommandError("--file: only with one host; each has a file of its own.")
        for host in options["hosts"]:
            self._enroll_one(host, options["cell"], options)

    def _enroll_one(self, host: str, cell: str, options: dict[str, Any]) -> None:
        if options["token"]:
            self.stdout.write(keys.create_token(system_context(), host, cell, seconds=options["seconds"]))
            return
        path = options["file"] or identities.path_of(Path(settings.NOVELLA_DATA), host)
        made = keys.enroll(system_context(), host, cell)
        self._write(path, made)
        self.stdout.write(f"{host} of {cell} is enrolled with key {made.keys[0].key_id}; its identity is in {path}")

    def _redeem(self, options: dict[str, Any]) -> None:
        made = redeem(options["url"], options["token"])
        path = identities.path_of(Path(settings.NOVELLA_DATA), made.host)
        self._write(path, made)
        self.stdout.write(f"{made.host} of {made.cell} is enrolled; its identity is in {path}")

    def _write(self, path: Path, made: identities.Credentials) -> None:
        try:
            identities.write(path, made)
        except OSError as error:
            raise CommandError(f"Cannot write {path} ({error.strerror}).") from None

    def _list(self, options: dict[str, Any]) -> None:
        found = keys.list_keys()
        if options["json"]:
            self.stdout.write(json.dumps([asdict(one) for one in found], indent=2, default=str))
            return
        for one in found:
            state = f"ends {one.ends_at:%Y-%m-%d %H:%M:%S}" if one.ends_at else "to be replaced" if one.is_due else ""
            self.stdout.write(f"{one.host:<24} {one.cell:<12} {one.key_id} {one.created_at:%Y-%m-%d} {state}".rstrip())

    def _rotate(self, options: dict[str, Any]) -> None:
        keys.rotate(system_context(), options["host"])
        self.stdout.write(f"{options['host']} replaces its key with its next report.")

    def _revoke(self, options: dict[str, Any]) -> None:
        count = keys.revoke(system_context(), options["host"])
        self.stdout.write(f"{count} keys of {options['host']} are revoked.")

    def _rotate_conductors(self, options: dict[str, Any]) -> None:
        key_id = keys.rotate_conductors(
            system_context(), after_seconds=options["after"], keep_seconds=options["keep_old"]
        )
        self.stdout.write(f"The conductors' next key {key_id} signs in {options['after']:.0f} seconds.")
