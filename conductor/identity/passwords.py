"""Checks passwords and other secrets: dear for who guesses, cheap for who has just proved to know."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict

from django.conf import settings
from django.contrib.auth.hashers import check_password, make_password
from django.db.models import F

from conductor.core.errors import NotAuthenticated
from conductor.identity.models import User
from conductor.transactions import database_now, write_tx

_REMEMBERED = 512
# Never leaves this process: a dump of the cache's keys is of no use to anybody.
_key = secrets.token_bytes(32)
_proved: OrderedDict[bytes, None] = OrderedDict()
_lock = threading.Lock()


def matches(stored: str, text: str) -> bool:
    """Whether a text is the one that was hashed."""
    # The stored hash is part of the entry, so a changed password forgets the old one by itself.
    entry = hmac.digest(_key, f"{stored}\0{text}".encode("utf-8", "surrogatepass"), hashlib.sha256)
    with _lock:
        if entry in _proved:
            _proved.move_to_end(entry)
            return True
    if not check_password(text, stored):
        return False
    with _lock:
        _proved[entry] = None
        while len(_proved) > _REMEMBERED:
            _proved.popitem(last=False)
    return True


def is_right(user: User | None, password: str) -> bool:
    """Whether the password is the user's. A user who does not exist takes as long as a wrong password."""
    if user is None:
        make_password(password)
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
