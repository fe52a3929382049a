"""Membership by ZooKeeper: an ephemeral node per process, which goes with its session."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from conductor.core.errors import Unavailable
from conductor.core.membership import Member, Membership, Place, life_of
from conductor.membership.addresses import parse
from conductor.membership.polled import Lives, Polled

PORT = 2181
PATH = "/novella/members"
# After this long without a word the server takes a client for dead; it has limits of its own for it (`tickTime`).
SESSION_SECONDS = 4.0
# Knock often at a server that is down: who is not back soon after it is counts as dead.
RETRY: Mapping[str, float] = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 0.5}
ANSWER_SECONDS = 3.0
# The client says at every try that a server does not answer; we say it once.
_silent = logging.getLogger(f"{__name__}.client")
_silent.setLevel(logging.CRITICAL)


class ZooKeeperMembership(Polled, Membership):
    """`zookeeper://host:port,host:port/path`."""

    poll_seconds = 0.1
    failures = (KazooException, KazooTimeoutError, ConnectionError)

    def __init__(self, place: Place) -> None:
        Membership.__init__(self, place)
        Polled.__init__(self, "zookeeper")
        self._addresses = parse(place.url, port=PORT, path=PATH)

    @contextmanager
    def entered(self, me: Member) -> Iterator[Lives]:
        with self._client() as client:
            client.create(f"{self._addresses.path}/{me.worker}", me.name.encode(), ephemeral=True, makepath=True)

            def lives() -> set[str] | None:
                # A server that comes back in time finds this session alive, and the client goes on with it by itself.
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
        if client.exists(self._addresses.path) is None:  # nobody was ever there
            return found
        for worker in sorted(client.get_children(self._addresses.path)):
            with suppress(NoNodeError):  # it has just gone
                found.append(Member(worker, client.get(f"{self._addresses.path}/{worker}")[0].decode()))
        return found

    @contextmanager
    def _client(self) -> Iterator[KazooClient]:
        hosts = ",".join(
            f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name, port in self._addresses.hosts
        )
        client = KazooClient(hosts=hosts, timeout=SESSION_SECONDS, connection_retry=dict(RETRY), logger=_silent)
        try:
            client.start(timeout=ANSWER_SECONDS)
            yield client
        finally:
            client.stop()
            client.close()
