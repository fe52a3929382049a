"""Accounts at the broker: a host's account may only read its own queue and write into others.

The account keeps hosts from reading each other's messages. A message counts only with a valid signature (`trust.py`).
"""

from __future__ import annotations

import re
import secrets
import shlex
from dataclasses import dataclass
from urllib.parse import quote, urlsplit, urlunsplit

QUEUE_PARTS = ("", ".DQ", ".XQ")  # a queue of dramatiq's, with its delayed and dead messages
# Commands of dramatiq's script for Redis, and of the connection; none can change a user, key or setting.
REDIS_COMMANDS = (
    "evalsha script|load ping select hello blmove keys del "
    "zadd zrem zrangebyscore smembers sadd srem rpush lpop hset hget hmget hdel hexists"
)
CONDUCTORS = "novella-conductor"


def _password() -> str:
    """Return a random password. Command lines take it: in URL-safe base64 it could begin with "-", like an option."""
    return secrets.token_hex(24)


@dataclass(frozen=True)
class Account:
    """An account of one host, or of all webs and conductors where `host` is empty."""

    name: str
    password: str
    host: str = ""
    cell: str = ""

    @classmethod
    def of_host(cls, host: str, cell: str) -> Account:
        return cls(f"novella-host-{host}", _password(), host, cell)

    @classmethod
    def of_conductors(cls) -> Account:
        return cls(CONDUCTORS, _password())

    def url(self, broker_url: str) -> str:
        """Return the broker's address with this account in place of its own."""
        parts = urlsplit(broker_url)
        place = parts.netloc.rpartition("@")[2]
        return urlunsplit(parts._replace(netloc=f"{quote(self.name, safe='')}:{self.password}@{place}"))


def rabbitmq_commands(account: Account, vhost: str = "/") -> list[str]:
    """Return the arguments of `rabbitmqctl`, one line each.

    Messages are sent through the default exchange, whose permission covers all queues.
    """
    if account.host:
        queue = f"^{re.escape(f'compute.{account.host}')}(\\.DQ|\\.XQ)?$"
    else:
        queue = "^(conductor|compute)(\\..*)?$"
    name, patterns = shlex.quote(account.name), (queue, "^amq\\.default$", queue)
    return [
        f"rabbitmqctl add_user {name} {shlex.quote(account.password)}",
        f"rabbitmqctl set_permissions --vhost {shlex.quote(vhost)} {name} {' '.join(map(shlex.quote, patterns))}",
    ]


def redis_rules(account: Account) -> list[str]:
    """Return the words of `ACL SETUSER`, and of a line `user …` in Redis's file of accounts (Redis 7 or newer)."""
    head = [account.name, "reset", "on", f">{account.password}"]
    if not account.host:
        return [*head, "~*", "&*", "+@all", "-@admin"]
    own = f"dramatiq:compute.{account.host}"
    keys = ["dramatiq", "dramatiq:__heartbeats__"]
    keys += [f"{own}{part}{content}" for part in QUEUE_PARTS for content in ("", ".msgs")]
    keys += [f"dramatiq:__acks__.*.compute.{account.host}{part}" for part in QUEUE_PARTS[:2]]
    written = [f"dramatiq:conductor.{account.cell}{content}" for content in ("", ".msgs")]
    rules = [*(f"~{key}" for key in keys), *(f"%W~{key}" for key in written)]
    return [*head, *rules, "-@all", *(f"+{command}" for command in REDIS_COMMANDS.split())]
