"""Checks passwords: dear for who guesses, cheap for who has just proved to know."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict

from django.contrib.auth.hashers import check_password, make_password

from conductor.identity.models import User

_REMEMBERED = 512
# Never leaves this process: a dump of the cache's keys is of no use to anybody.
_key = secrets.token_bytes(32)
_proved: OrderedDict[bytes, None] = OrderedDict()
_lock = threading.Lock()


def is_right(user: User | None, password: str) -> bool:
    """Whether the password is the user's. A user who does not exist takes as long as a wrong password."""
    if user is None:
        make_password(password)
        return False
    # The stored hash is part of the entry, so a changed password forgets the old one by itself.
    entry = hmac.digest(_key, f"{user.password}\0{password}".encode("utf-8", "surrogatepass"), hashlib.sha256)
    with _lock:
        if entry in _proved:
            _proved.move_to_end(entry)
            return True
    if not check_password(password, user.password):
        return False
    with _lock:
        _proved[entry] = None
        while len(_proved) > _REMEMBERED:
            _proved.popitem(last=False)
    return True
