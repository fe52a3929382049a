"""Membership by ZooKeeper: each process has an ephemeral node, which ends with its session."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from conductor.core.errors import Unavailable
from conductor.core.membership import Member, Membership, MembershipLocation, life_of
from conductor.membership.addresses import parse
from conductor.membership.polled import Lives, PolledMembership

PORT = 2181
PATH = "/novella/members"
# The server ends a session after this long without a message. It has limits of its own for this time (`tickTime`).
SESSION_SECONDS = 4.0
# Reconnect often to a server that is down, as a client that is not back soon after it counts as dead.
RETRY: Mapping[str, float] = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 0.5}
ANSWER_SECONDS = 3.0
# The client logs every failed attempt; this module logs an outage once.
_client_log = logging.getLogger(f"{__name__}.client")
_client_log.setLevel(logging.CRITICAL)


class ZooKeeperMembership(PolledMembership, Membership):
    """Membership by `zookeeper://host:port,host:port/path`."""

    poll_seconds = 0.1
    failures = (KazooException, KazooTimeoutError, ConnectionError)

    def __init__(self, place: MembershipLocation) -> None:
        Membership.__init__(self, place)
        PolledMembership.__init__(self, "zookeeper")
        self._addresses = parse(place.url, port=PORT, path=PATH)

    @contextmanager
    def entered(self, me: Member) -> Iterator[Lives]:
        with self._client() as client:
            client.create(f"{self._addresses.path}/{me.worker}", me.name.encode(), ephemeral=True, makepath=True)

            def lives() -> set[str] | None:
                # If a server comes back in time, this session is still alive, and the client continues it by itself.
                try:
                    workers = client.get_children_async(self._addresses.path).get(timeout=ANSWER_SECONDS)
                except (ConnectionLoss, KazooTimeoutError):
                    return None
                return {life_of(worker) for worker in workers}

            yield lives

    def members(self) -> Sequence[Member]:
        try:
            with self._client() as client:
                return self._read(client)
        except self.failures:
            raise Unavailable("ZooKeeper does not answer.") from None

    def _read(self, client: KazooClient) -> list[Member]:
        found: list[Member] = []
        if client.exists(self._addresses.path) is None:  # no process was ever a member
            return found
        for worker in sorted(client.get_children(self._addresses.path)):
            with suppress(NoNodeError):  # it has just ended
                found.append(Member(worker, client.get(f"{self._addresses.path}/{worker}")[0].decode()))
        return found

    @contextmanager
    def _client(self) -> Iterator[KazooClient]:
        hosts = ",".join(
            f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name, port in self._addresses.hosts
        )
        client = KazooClient(hosts=hosts, timeout=SESSION_SECONDS, connection_retry=dict(RETRY), logger=_client_log)
        try:
            client.start(timeout=ANSWER_SECONDS)
            yield client
        finally:
            client.stop()
            client.close()
