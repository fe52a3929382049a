"""Hashes, verifies and validates passwords and other secrets; hashes are expensive, a verified secret is cached."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.hashers import check_password, make_password
from django.contrib.auth.password_validation import CommonPasswordValidator
from django.core.exceptions import ValidationError
from django.db.models import F

from conductor.core.errors import Invalid, NotAuthenticated, TooManyRequests
from conductor.core.messages import message
from conductor.db.transactions import database_now, write_tx
from conductor.identity.models import User

SHORTEST, LONGEST = 8, 4096  # characters
_REMEMBERED = 512
# Never leaves this process: a dump of the cache's keys is of no use to an attacker.
_key = secrets.token_bytes(32)
_proved: OrderedDict[bytes, None] = OrderedDict()
_lock = threading.Lock()
_common = CommonPasswordValidator()
_NOT_LETTERS = re.compile(r"[\W\d_]+")


@dataclass
class SignIn:
    """A sign-in in progress: whether its address is known for the account, and how many hashes it cost.

    `require_room` raises TooManyRequests once too many others have failed meanwhile.
    """

    is_known: bool
    require_room: Callable[[], None]
    hashes: int = 0


sign_in: ContextVar[SignIn | None] = ContextVar("sign_in", default=None)  # set by `sign_in_limits`


class HashLimiter:
    """Lets at most `size` hashes run at once. A few more wait; known callers have a queue of their own.

    A hash takes a core and 16 MB for about 50 ms. Without a limit, the sign-ins of an attack would take every core and
    every worker from all other requests.
    """

    def __init__(self, size: int, *, places: int = 8, seconds: float = 5.0) -> None:
        self._size, self._places, self._seconds = size, places, seconds
        self._changed = threading.Condition()
        self._running = 0
        self._waiting = {True: 0, False: 0}  # by whether the caller is known

    @contextmanager
    def entered(self, *, is_known: bool) -> Iterator[None]:
        """Wait for a free place to run one hash. Raises TooManyRequests with a delay where too many are waiting."""
        with self._changed:
            self._wait(is_known)
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _wait(self, is_known: bool) -> None:
        if self._is_free(is_known):
            return
        if self._waiting[is_known] >= self._places:
            raise _busy()
        self._waiting[is_known] += 1
        try:
            if not self._changed.wait_for(lambda: self._is_free(is_known), self._seconds):
                raise _busy()
        finally:
            self._waiting[is_known] -= 1

    def _is_free(self, is_known: bool) -> bool:
        return self._running < self._size and (is_known or not self._waiting[True])


def _busy() -> TooManyRequests:
    return TooManyRequests(message("sign_in.busy"), retry_after=1)


limiter = HashLimiter(max(1, len(os.sched_getaffinity(0)) // 2))


@contextmanager
def _hashing() -> Iterator[None]:
    current = sign_in.get()
    with limiter.entered(is_known=current is None or current.is_known):
        yield
    if current is not None:
        current.hashes += 1


def hashed(text: str) -> str:
    """Return the hash to store for a new password or secret. Raises TooManyRequests while too many hashes run."""
    with _hashing():
        return make_password(text)


def matches(stored: str, text: str) -> bool:
    """Whether the text matches the stored hash.

    Raises TooManyRequests while too many hashes run, and for a right text once too many sign-ins have failed.
    """
    is_right = _matches(stored, text)
    current = sign_in.get()
    if is_right and current is not None:
        current.require_room()
    return is_right


def _matches(stored: str, text: str) -> bool:
    # The stored hash is part of the entry, so a changed password invalidates the old entry.
    entry = hmac.digest(_key, f"{stored}\0{text}".encode("utf-8", "surrogatepass"), hashlib.sha256)
    with _lock:
        if entry in _proved:
            _proved.move_to_end(entry)
            return True
    with _hashing():
        is_right = check_password(text, stored)
    if not is_right:
        return False
    with _lock:
        _proved[entry] = None
        while len(_proved) > _REMEMBERED:
            _proved.popitem(last=False)
    return True


def is_right(user: User | None, password: str) -> bool:
    """Whether the password is the user's. A user who does not exist takes as long as a wrong password."""
    if user is None:
        hashed(password)
        return False
    return matches(user.password, password)


def prove(user: User | None, password: str) -> User:
    """Return the user if the password is right. Raises NotAuthenticated, also while failures lock the user out."""
    is_known = is_right(user, password)
    if user is None or not is_known:
        if user is not None:
            _count_failure(user)
        raise NotAuthenticated()
    if _is_locked_out(user):
        raise NotAuthenticated()
    if user.failed_logins:
        User.objects.filter(id=user.id).update(failed_logins=0, failed_at=None)
    return user


def require_acceptable(user: User, password: str) -> None:
    """Raise Invalid, naming the rule, for a password that is easily guessed: the one policy of API and pages."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise Invalid(message("password.length", least=SHORTEST, most=LONGEST), field="password")
    plain = {_letters_of(text) for text in (user.username, user.email.partition("@")[0])}
    if _letters_of(password) in plain - {""}:
        raise Invalid(message("password.name"), field="password")
    try:
        _common.validate(password)
    except ValidationError:
        raise Invalid(message("password.common"), field="password") from None


def _letters_of(text: str) -> str:
    return _NOT_LETTERS.sub("", text).casefold()


def _heeds_lockout(user: User) -> bool:
    return settings.NOVELLA_LOCKOUT_FAILURES > 0 and not user.options.get("ignore_lockout_failure_attempts")


def _count_failure(user: User) -> None:
    if _heeds_lockout(user) and not _is_locked_out(user):
        with write_tx():
            User.objects.filter(id=user.id).update(failed_logins=F("failed_logins") + 1, failed_at=database_now())


def _is_locked_out(user: User) -> bool:
    if not _heeds_lockout(user):
        return False
    recently = database_now(-settings.NOVELLA_LOCKOUT_SECONDS)
    return User.objects.filter(
        id=user.id, failed_logins__gte=settings.NOVELLA_LOCKOUT_FAILURES, failed_at__gt=recently
    ).exists()
