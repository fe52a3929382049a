"""Hashes, checks and bounds passwords and other secrets: costly to guess, cheap for a caller that has proved one."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.hashers import check_password, make_password
from django.contrib.auth.password_validation import CommonPasswordValidator
from django.core.exceptions import ValidationError
from django.db.models import F

from conductor.core.errors import Invalid, NotAuthenticated, TooOften
from conductor.identity.models import User
from conductor.transactions import database_now, write_tx

SHORTEST, LONGEST = 8, 4096  # characters
_REMEMBERED = 512
# Never leaves this process: a dump of the cache's keys is of no use to anybody.
_key = secrets.token_bytes(32)
_proved: OrderedDict[bytes, None] = OrderedDict()
_lock = threading.Lock()
_common = CommonPasswordValidator()
_NOT_LETTERS = re.compile(r"[\W\d_]+")


@dataclass
class SignIn:
    """A sign-in that is being checked: whether its address is known for the account, and the hashes that it cost."""

    is_known: bool
    hashes: int = 0


sign_in: ContextVar[SignIn | None] = ContextVar("sign_in", default=None)  # set by `sign_in_limits`


class HashGate:
    """Lets at most `size` hashes run at once. A few more wait; those of known callers have places of their own.

    A hash takes a core and 16 MB for about 50 ms. Unbounded, the sign-ins of an attack take every core and every
    worker from all other requests.
    """

    def __init__(self, size: int, *, places: int = 8, seconds: float = 5.0) -> None:
        self._size, self._places, self._seconds = size, places, seconds
        self._changed = threading.Condition()
        self._running = 0
        self._waiting = {True: 0, False: 0}  # by whether the caller is known

    @contextmanager
    def entered(self, *, is_known: bool) -> Iterator[None]:
        """A place to run one hash. Raises TooOften, with seconds to wait, where too many are waiting for one."""
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


def _busy() -> TooOften:
    return TooOften("Too many sign-ins are under way; try again in a moment.", retry_after=1)


gate = HashGate(max(1, len(os.sched_getaffinity(0)) // 2))


@contextmanager
def _hashing() -> Iterator[None]:
    current = sign_in.get()
    with gate.entered(is_known=current is None or current.is_known):
        yield
    if current is not None:
        current.hashes += 1


def hashed(text: str) -> str:
    """What is stored of a new password or secret. Raises TooOften while too many hashes are under way."""
    with _hashing():
        return make_password(text)


def matches(stored: str, text: str) -> bool:
    """Whether a text is the one that was hashed. Raises TooOften while too many hashes are under way."""
    # The stored hash is part of the entry, so a changed password forgets the old one by itself.
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
    """The user, whose password it is. Raises NotAuthenticated, also while too many wrong ones lock the user out."""
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
    """Raises Invalid, naming the rule, for a password that is easily guessed: the one policy of API and pages."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise Invalid(f"A password must have {SHORTEST} to {LONGEST} characters.", field="password")
    plain = {_letters_of(text) for text in (user.username, user.email.partition("@")[0])}
    if _letters_of(password) in plain - {""}:
        raise Invalid("A password must not be the user's name, also not with digits added.", field="password")
    try:
        _common.validate(password)
    except ValidationError:
        raise Invalid("This password is one of the most used ones; choose another.", field="password") from None


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
