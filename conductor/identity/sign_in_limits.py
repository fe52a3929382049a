"""Limits of failed sign-ins: for an account from one address, for an address, and for an account in total.

Each limit is a token bucket in the database, so that all processes share it. Failures take from a bucket, sign-ins
that succeed take nothing. An account's bucket is that of the user or the application credential that the request
names, whatever its spelling: two users whose names differ by domain or by case have a bucket each, and a success of one
never clears failures of the other. Names of no account have buckets too: an unknown account gets the same answers,
limits and costs.

An address from which an account has signed in lately is known for it. Only the strict limit of that account at that
address counts there, so failures from elsewhere never keep the account's owner out.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv6Address, ip_address

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Now

from conductor.core.errors import NotAuthenticated, TooManyRequests
from conductor.core.messages import message
from conductor.db.transactions import database_now, database_time, one_at_a_time, write_tx
from conductor.identity import passwords
from conductor.identity.models import Domain, SignInRecord, User
from conductor.identity.passwords import SignIn

KNOWN_SECONDS = 30 * 86_400.0  # since the last sign-in
_RENEWED_BELOW = KNOWN_SECONDS - 86_400.0  # written at most once a day
_PREFIX_BITS = 64  # of IPv6: the network of one customer


@dataclass(frozen=True)
class SignInLimit:
    """A limit of failures: at most `most` at once, refilled evenly over `window` seconds. 0 does not limit."""

    key: str
    most: int
    window: float

    @property
    def interval(self) -> float:
        """Seconds until one more failure is allowed."""
        return self.window / self.most

    def wait(self, left: float) -> float:
        """Return the seconds until an attempt is allowed, where the bucket is full again in `left` seconds."""
        return left - (self.most - 1) * self.interval


def of_user(user_id: str) -> str:
    """Return the key of a user."""
    return f"user:{user_id}"


def of_credential(credential_id: str) -> str:
    """Return the key of an application credential."""
    return f"credential:{credential_id}"


def of_unknown(*words: str) -> str:
    """Return the key of a name that belongs to no account, regardless of case."""
    return "\0".join(["unknown", *(word.strip().casefold() for word in words)])


def of_name(name: str, *, domain_id: str = "", domain_name: str = "") -> str:
    """Return the key of the user with this name in a domain, which is given by id or by name.

    If no user has the name, the user is meant whose name differs only by case. So it does not reveal which of them
    exist.
    """
    domain = {"domain_id": domain_id} if domain_id else {"domain__name": domain_name}
    users = User.objects.filter(**domain)
    for named in (users.filter(username=name), users.filter(username__iexact=name.strip()).order_by("id")):
        user_id = named.values_list("id", flat=True).first()
        if user_id is not None:
            return of_user(user_id)
    if not domain_id:
        domain_id = Domain.objects.filter(name=domain_name).values_list("id", flat=True).first() or domain_name
    return of_unknown("user", domain_id, name)


@contextmanager
def attempt(address: str, account: str) -> Iterator[None]:
    """Guard one attempt to prove a password or a secret, from an address, for an account's key.

    Raises TooManyRequests with the seconds to wait where too many attempts failed lately. NotAuthenticated inside
    counts as a failure. It costs one hash whatever the reason is, so that its duration reveals nothing. Of simultaneous
    attempts no more than the limit learn whether they were right: each is checked again with its result, a failure in
    the transaction that counts it.
    """
    place, pair = _place_of(address), f"{_place_of(address)}\0{account}"
    strict = SignInLimit(_key("pair", pair), settings.NOVELLA_SIGN_IN_FAILURES, settings.NOVELLA_SIGN_IN_SECONDS)
    wide = (
        SignInLimit(_key("address", place), settings.NOVELLA_SIGN_IN_FAILURES_PER_ADDRESS, 60.0),
        SignInLimit(_key("account", account), settings.NOVELLA_SIGN_IN_FAILURES_PER_ACCOUNT, 60.0),
    )
    known_key = _key("known", pair)
    left = _seconds_left([strict.key, *(limit.key for limit in wide), known_key])
    is_known = known_key in left
    limits = [limit for limit in ((strict,) if is_known else (strict, *wide)) if limit.most]
    _require_room(limits, left)
    current = SignIn(is_known, lambda: _require_room(limits, _seconds_left([limit.key for limit in limits])))
    token = passwords.sign_in.set(current)
    try:
        yield
    except NotAuthenticated:
        if not current.hashes:
            passwords.hashed("")
        _count(limits)
        raise
    finally:
        passwords.sign_in.reset(token)
    _succeeded(known_key, strict.key, left)


def _place_of(address: str) -> str:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or int(parsed) >> (128 - _PREFIX_BITS))


def _key(kind: str, text: str) -> str:
    """Return a keyed digest, so that the table reveals neither accounts nor addresses."""
    named = f"sign-in\0{kind}\0{text}".encode("utf-8", "surrogatepass")
    return hmac.digest(settings.SECRET_KEY.encode(), named, hashlib.sha256).hex()


def _seconds_left(keys: Sequence[str]) -> Mapping[str, float]:
    rows = SignInRecord.objects.filter(key__in=keys, ends_at__gt=Now()).annotate(left=F("ends_at") - Now())
    return {row.key: row.left.total_seconds() for row in rows}


def _require_room(limits: Sequence[SignInLimit], left: Mapping[str, float]) -> None:
    wait = max((limit.wait(left.get(limit.key, 0.0)) for limit in limits), default=0.0)
    if wait > 0:
        seconds = math.ceil(wait)
        raise TooManyRequests(message("sign_in.too_many_failed", seconds=seconds), retry_after=seconds)


def _count(limits: Sequence[SignInLimit]) -> None:
    """Count a failure. Raises TooManyRequests, and counts nothing, where others have used up a limit meanwhile."""
    keys = [limit.key for limit in limits]
    with write_tx():
        one_at_a_time("default", *keys)
        now = database_time()
        SignInRecord.objects.filter(ends_at__lt=now).delete()
        ends = dict(SignInRecord.objects.filter(key__in=keys).values_list("key", "ends_at"))
        _require_room(limits, {key: (end - now).total_seconds() for key, end in ends.items()})
        rows = [
            SignInRecord(limit.key, ends.get(limit.key, now) + timedelta(seconds=limit.interval)) for limit in limits
        ]
        SignInRecord.objects.bulk_create(rows, update_conflicts=True, unique_fields=["key"], update_fields=["ends_at"])


def _succeeded(known_key: str, strict_key: str, left: Mapping[str, float]) -> None:
    """Record a success. Most sign-ins write nothing, as the address is known, and nothing failed there."""
    is_new = left.get(known_key, 0.0) < _RENEWED_BELOW
    if not is_new and strict_key not in left:
        return
    with write_tx():
        SignInRecord.objects.filter(key=strict_key).delete()
        if is_new:
            SignInRecord.objects.update_or_create(key=known_key, defaults={"ends_at": database_now(KNOWN_SECONDS)})
