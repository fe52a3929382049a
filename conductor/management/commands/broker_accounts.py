"""`novella broker_accounts`: prints commands that create broker accounts for hosts."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.core.management.base import CommandError

from conductor.manual import ManualCommand
from conductor.rpc.broker_accounts import Account, rabbitmq_commands, redis_rules
from conductor.services.hosts import keys

RABBITMQ, REDIS = "rabbitmq", "redis"
PLACES = {RABBITMQ: "amqp://BROKER:5672/", REDIS: "redis://BROKER:6379/0"}


class Command(ManualCommand):
    help = (
        "Print the commands that create broker accounts of hosts and schedulers. They come with new "
        "passwords, for each enrolled host or for those that are named; an account reads the queue of its host or "
        "scheduler only. Run them where the broker is."
    )
    requires_system_checks = []
    examples = {
        "broker_accounts rabbitmq rack1-03": "Print the commands that create the account of one host.",
        "broker_accounts redis --conductors": "Print the accounts of webs and conductors, and of every enrolled host.",
        "broker_accounts redis --scheduler scheduler-1": "Print the commands that create the account of a scheduler.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", choices=[RABBITMQ, REDIS], help="the broker that you use")
        parser.add_argument("hosts", nargs="*", metavar="host", help="an enrolled host (default: all of them)")
        parser.add_argument("--conductors", action="store_true", help="print also the accounts of webs and conductors")
        parser.add_argument(
            "--scheduler", action="append", default=[], metavar="NAME", help="a scheduler of its own; repeatable"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        cells = {key.host: key.cell for key in keys.list_keys()}
        unknown = [host for host in options["hosts"] if host not in cells]
        if unknown:
            raise CommandError(f"Not enrolled: {', '.join(unknown)}. Run novella hosts enroll first.")
        is_named = options["hosts"] or options["scheduler"]
        accounts = [Account.of_webs(), Account.of_conductors()] if options["conductors"] else []
        accounts += [Account.of_scheduler(name) for name in options["scheduler"]]
        accounts += [Account.of_host(host, cells[host]) for host in (options["hosts"] if is_named else sorted(cells))]
        for account in accounts:
            self._print(options["kind"], account)

    def _print(self, kind: str, account: Account) -> None:
        own = settings.NOVELLA_BROKER_URL
        url = own if own.startswith(PLACES[kind][:4]) else PLACES[kind]
        self.stdout.write(f"# {account.label}: NOVELLA_BROKER_URL={account.url(url)}")
        if kind == RABBITMQ:
            vhost = unquote(urlsplit(url).path.removeprefix("/")) or "/"
            self.stdout.write("\n".join(rabbitmq_commands(account, vhost)))
        else:
            self.stdout.write(f"redis-cli ACL SETUSER {' '.join(map(shlex.quote, redis_rules(account)))}")
