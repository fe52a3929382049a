"""Second factors of sign-in: time-based codes of an authenticator, and recovery codes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from django.conf import settings
from django.db.models import F

from conductor.core.errors import Conflict, Invalid, NotAuthenticated, Unavailable
from conductor.core.sealing import box
from conductor.db.transactions import database_now, database_time, write_tx
from conductor.identity.models import RecoveryCode, SecondFactor, User
from conductor.identity.revocations import end_portal_sessions

ISSUER = "Novella"
KEY_BYTES, DIGITS, STEP_SECONDS = 20, 6, 30
STEPS_OFF = 1  # a clock may be this many steps before or after ours
RECOVERY_CODES, RECOVERY_LENGTH = 10, 12
MOST_FAILURES, LOCKED_SECONDS = 5, 300
WRONG = "That code is not right. Wait for the next one that the authenticator shows, and type that."


@dataclass(frozen=True)
class Enrolment:
    """Data for an authenticator: the key to type, or the address to scan."""

    key: str
    address: str


def is_on(user_id: str) -> bool:
    """Whether the user needs a code besides the password."""
    return SecondFactor.objects.filter(user_id=user_id, confirmed_at__isnull=False).exists()


def codes_left(user_id: str) -> int:
    """Return how many recovery codes are unused."""
    return RecoveryCode.objects.filter(user_id=user_id).count()


def enrolment(user: User, *, is_new: bool = False) -> Enrolment:
    """Return the key to set up. It is the same until it is confirmed, unless `is_new`. Raises Conflict once
    confirmed.
    """
    with write_tx():
        found = SecondFactor.objects.select_for_update().filter(user_id=user.id).first()
        if found is not None and found.confirmed_at is not None:
            raise Conflict("Codes are asked for already. Turn them off before you set up another authenticator.")
        if found is None or is_new:
            kept = _box().encrypt(secrets.token_bytes(KEY_BYTES)).decode()
            found, _ = SecondFactor.objects.update_or_create(user_id=user.id, defaults={"encrypted_key": kept})
    key = _key(found)
    return Enrolment(base64.b32encode(key).decode(), _totp(key).get_provisioning_uri(user.username, ISSUER))


def confirm(user_id: str, code: str) -> list[str]:
    """Require codes from now on, and end portal sessions that began without one.

    Return the recovery codes, which are shown only here. Raises Invalid for a wrong code.
    """
    with write_tx():
        found = SecondFactor.objects.select_for_update().filter(user_id=user_id, confirmed_at=None).first()
        if found is None:
            raise Conflict("There is nothing to confirm: begin with setting up an authenticator.")
        step = _step_of(found, code)
        if step is None:
            raise Invalid(WRONG, field="code")
        end_portal_sessions(id=user_id)
        SecondFactor.objects.filter(user_id=user_id).update(confirmed_at=database_now(), last_step=step, failures=0)
        return _new_codes(user_id)


def prove(user_id: str, code: str) -> None:
    """Use up an authenticator or recovery code.

    Raises NotAuthenticated, also for five minutes after five wrong codes in a row.
    """
    if not _count_attempt(user_id) or not _take(user_id, code):
        raise NotAuthenticated()
    SecondFactor.objects.filter(user_id=user_id).update(failures=0, failed_at=None)


def turn_off(user_id: str, code: str) -> None:
    """Turn the second factor off. Raises Invalid for a wrong code."""
    _prove_in_form(user_id, code)
    with write_tx():
        SecondFactor.objects.filter(user_id=user_id).delete()
        RecoveryCode.objects.filter(user_id=user_id).delete()


def reset(user_id: str) -> None:
    """Turn it off for a user who has lost all codes, and end the user's portal sessions.

    Raises Conflict where there is nothing to reset.
    """
    with write_tx():
        gone, _ = SecondFactor.objects.filter(user_id=user_id).delete()
        RecoveryCode.objects.filter(user_id=user_id).delete()
        end_portal_sessions(id=user_id)
    if not gone:
        raise Conflict("This user has set up no second factor.")


def renew_codes(user_id: str, code: str) -> list[str]:
    """Return new recovery codes, which replace the old ones. Raises Invalid for a wrong code."""
    _prove_in_form(user_id, code)
    with write_tx():
        return _new_codes(user_id)


def _prove_in_form(user_id: str, code: str) -> None:
    try:
        prove(user_id, code)
    except NotAuthenticated:
        raise Invalid(WRONG, field="code") from None


def _take(user_id: str, code: str) -> bool:
    """Use up the code. Return whether it was valid. Of two concurrent requests with the same code one is refused."""
    found = SecondFactor.objects.filter(user_id=user_id, confirmed_at__isnull=False).first()
    if found is None:
        return False
    step = _step_of(found, code)
    with write_tx():
        if step is not None:
            return bool(SecondFactor.objects.filter(user_id=user_id, last_step__lt=step).update(last_step=step))
        gone, _ = RecoveryCode.objects.filter(user_id=user_id, digest=_digest(user_id, code)).delete()
        return bool(gone)


def _count_attempt(user_id: str) -> bool:
    """Count a failure before the code is checked, so that no more attempts run at once than may fail in a row.

    Return False for a locked user, for whom nothing is counted.
    """
    recently = database_now(-LOCKED_SECONDS)
    unlocked = SecondFactor.objects.exclude(failures__gte=MOST_FAILURES, failed_at__gt=recently)
    return bool(unlocked.filter(user_id=user_id).update(failures=F("failures") + 1, failed_at=database_now()))


def _step_of(row: SecondFactor, code: str) -> int | None:
    """Return the time step of the code, if it is a current one that has not been used."""
    typed = "".join(code.split())
    if not (typed.isascii() and typed.isdigit() and len(typed) == DIGITS):
        return None
    totp, now = _totp(_key(row)), int(database_time().timestamp()) // STEP_SECONDS
    for step in range(now - STEPS_OFF, now + STEPS_OFF + 1):
        if step > row.last_step and hmac.compare_digest(totp.generate(step * STEP_SECONDS), typed.encode()):
            return step
    return None


def _new_codes(user_id: str) -> list[str]:
    alphabet = "abcdefghjkmnpqrstuvwxyz23456789"  # without letters that are mistaken for others
    codes = ["".join(secrets.choice(alphabet) for _ in range(RECOVERY_LENGTH)) for _ in range(RECOVERY_CODES)]
    RecoveryCode.objects.filter(user_id=user_id).delete()
    RecoveryCode.objects.bulk_create(RecoveryCode(user_id=user_id, digest=_digest(user_id, code)) for code in codes)
    return [f"{code[:4]}-{code[4:8]}-{code[8:]}" for code in codes]


def _digest(user_id: str, code: str) -> str:
    """Return a digest. Twelve random characters need no slow hash: a keyed one, so that a dump alone reveals none."""
    plain = "".join(one for one in code.lower() if one.isalnum())
    return hmac.digest(settings.SECRET_KEY.encode(), f"{user_id}\0{plain}".encode(), hashlib.sha256).hex()


def _totp(key: bytes) -> TOTP:
    return TOTP(key, DIGITS, SHA1(), STEP_SECONDS)  # supported by every authenticator


def _box() -> Fernet:
    return box(settings.SECRET_KEY, "novella second factors")


def _key(row: SecondFactor) -> bytes:
    try:
        return _box().decrypt(row.encrypted_key.encode())
    except InvalidToken:
        raise Unavailable("The key of this authenticator was encrypted with another secret key.") from None
