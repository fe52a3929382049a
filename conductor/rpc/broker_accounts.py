"""Accounts at the broker. The account of a host or scheduler may read only its own queue, and write into others.

An account keeps hosts from reading each other's messages, and web processes from calling schedulers. In addition a
message counts only with a valid signature (`trust.py`).
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
    """Return a random password in hexadecimal digits, which no command line reads as an option."""
    return secrets.token_hex(24)


@dataclass(frozen=True)
class Account:
    """An account of one host or scheduler, of all web processes, or of all conductors.

    Attributes:
        own: The queue of the process; a process with one reads no other queue.
        written: Patterns of the queues that it writes to, with `*`. An account without any may use all queues of the
            product except those of schedulers.
    """

    name: str
    password: str
    label: str
    own: str = ""
    written: tuple[str, ...] = ()

    @classmethod
    def of_host(cls, host: str, cell: str) -> Account:
        return cls(f"novella-host-{host}", _password(), f"host {host}", f"compute.{host}", (f"conductor.{cell}",))

    @classmethod
    def of_scheduler(cls, name: str) -> Account:
        own = f"scheduler.{name}"
        return cls(f"novella-scheduler-{name}", _password(), f"scheduler {name}", own, ("conductor", "conductor.*"))

    @classmethod
    def of_webs(cls) -> Account:
        """Return the account of web processes, which notify conductors and send urgent commands to hosts."""
        return cls("novella-web", _password(), "webs", "", ("conductor", "conductor.*", "compute", "compute.*"))

    @classmethod
    def of_conductors(cls) -> Account:
        return cls(CONDUCTORS, _password(), "conductors")

    def url(self, broker_url: str) -> str:
        """Return the broker's address with this account in place of its own."""
        parts = urlsplit(broker_url)
        place = parts.netloc.rpartition("@")[2]
        return urlunsplit(parts._replace(netloc=f"{quote(self.name, safe='')}:{self.password}@{place}"))


def rabbitmq_commands(account: Account, vhost: str = "/") -> list[str]:
    """Return the arguments of `rabbitmqctl`, one line each.

    Messages are sent through the default exchange, whose permission covers all queues.
    """
    shared = "^(conductor|compute)(\\..*)?$"
    own = f"^{re.escape(account.own)}(\\.DQ|\\.XQ)?$" if account.own else shared
    reads = own if account.own or not account.written else "^$"
    name, patterns = shlex.quote(account.name), (own, "^amq\\.default$", reads)
    return [
        f"rabbitmqctl add_user {name} {shlex.quote(account.password)}",
        f"rabbitmqctl set_permissions --vhost {shlex.quote(vhost)} {name} {' '.join(map(shlex.quote, patterns))}",
    ]


def redis_rules(account: Account) -> list[str]:
    """Return the words of `ACL SETUSER`, and of a line `user …` in Redis's file of accounts (Redis 7 or newer)."""
    head = [account.name, "reset", "on", f">{account.password}"]
    if not account.written:
        return [*head, "~*", "&*", "+@all", "-@admin"]
    own = f"dramatiq:{account.own}"
    keys = ["dramatiq", "dramatiq:__heartbeats__"]
    if account.own:
        keys += [f"{own}{part}{content}" for part in QUEUE_PARTS for content in ("", ".msgs")]
        keys += [f"dramatiq:__acks__.*.{account.own}{part}" for part in QUEUE_PARTS[:2]]
    else:  # a web deletes the queue of a removed host
        keys.append("dramatiq:__acks__.*.compute.*")
    written = [f"dramatiq:{queue}{content}" for queue in account.written for content in ("", ".msgs")]
    rules = [*(f"~{key}" for key in keys), *(f"%W~{key}" for key in written)]
    return [*head, *rules, "-@all", *(f"+{command}" for command in REDIS_COMMANDS.split())]
