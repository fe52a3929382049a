"""Membership by etcd: each process has a key with a lease that it keeps alive."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import requests
from etcd3gw import exceptions
from etcd3gw.client import Etcd3Client

from conductor.core.errors import Unavailable
from conductor.core.membership import Member, Membership, MembershipLocation, life_of
from conductor.membership.addresses import parse
from conductor.membership.polled import Lives, PolledMembership

PORT = 2379
PREFIX = "/novella/members"
LEASE_SECONDS = 4  # little more than the shortest that a cluster with default settings grants
RENEW_SECONDS = 1.0
ANSWER_SECONDS = 2.0


class EtcdMembership(PolledMembership, Membership):
    """Membership by `etcd://host:port,host:port/prefix`. The first server that answers is used."""

    poll_seconds = 0.1
    failures = (exceptions.Etcd3Exception, requests.RequestException, KeyError)  # the last: an answer with no lease

    def __init__(self, place: MembershipLocation) -> None:
        Membership.__init__(self, place)
        PolledMembership.__init__(self, "etcd")
        self._addresses = parse(place.url, port=PORT, path=PREFIX)
        self._prefix = f"{self._addresses.path}/"

    @contextmanager
    def entered(self, me: Member) -> Iterator[Lives]:
        client = self._client()
        lease = client.lease(ttl=LEASE_SECONDS)
        client.put(f"{self._prefix}{me.worker}", me.name, lease)
        renewed_at = time.monotonic()

        def lives() -> set[str]:
            nonlocal renewed_at
            if time.monotonic() - renewed_at >= RENEW_SECONDS:
                renewed_at = time.monotonic()
                lease.refresh()
            return {life_of(worker) for worker, _ in self._read(client)}

        yield lives
        with suppress(*self.failures):  # it has expired already
            lease.revoke()

    def members(self) -> Sequence[Member]:
        try:
            return [Member(worker, name) for worker, name in sorted(self._read(self._client()))]
        except self.failures:
            raise Unavailable("etcd does not answer.") from None

    def _read(self, client: Etcd3Client) -> list[tuple[str, str]]:
        found = client.get_prefix(self._prefix)
        return [(item["key"].decode().removeprefix(self._prefix), name.decode()) for name, item in found]

    def _client(self) -> Etcd3Client:
        for name, port in self._addresses.hosts[:-1]:
            client = Etcd3Client(host=name, port=port, timeout=ANSWER_SECONDS)
            try:
                client.status()
            except self.failures:
                continue
            return client
        name, port = self._addresses.hosts[-1]
        return Etcd3Client(host=name, port=port, timeout=ANSWER_SECONDS)
