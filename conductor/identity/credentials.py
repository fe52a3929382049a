"""Encrypted secrets for other programs: EC2 key pairs and any text that a client stores."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.db import IntegrityError

from conductor import row_limits
from conductor.core import json_text
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from conductor.core.sealing import box
from conductor.db.transactions import write_tx
from conductor.identity import projects, users
from conductor.identity.listing import IdentityListQuery, narrowed, paged
from conductor.identity.models import Credential, new_id
from conductor.identity.tokens import Granted

EC2 = "ec2"
COLUMNS = {"user_id": "user_id", "type": "type", "project_id": "project_id"}


def _box() -> Fernet:
    return box(settings.SECRET_KEY, "novella credentials")


def blob_of(row: Credential) -> str:
    """Return the decrypted text. Raises Unavailable when the secret key is no longer the one that encrypted it."""
    try:
        return _box().decrypt(row.encrypted_blob.encode()).decode()
    except InvalidToken:
        raise Unavailable(f"Credential {row.id} was encrypted with another secret key.") from None


def get(credential_id: str) -> Credential:
    """Return a credential. Raises NotFound."""
    found = Credential.objects.filter(id=credential_id).first()
    if found is None:
        raise NotFound(f"Could not find credential: {credential_id}.")
    return found


def find(question: IdentityListQuery) -> tuple[list[Credential], bool]:
    """Return a page of credentials, and whether there are more."""
    return paged(narrowed(Credential.objects.all(), question, COLUMNS), question, "type")


def create(user_id: str, project_id: str | None, kind: str, blob: str) -> Credential:
    """Create a credential. Raises NotFound for user or project, Invalid for a bad EC2 blob, Conflict for a used key."""
    users.get(user_id)
    if project_id is not None:
        projects.get(project_id)
    credential_id = new_id()
    if kind == EC2:
        credential_id = hashlib.sha256(_access_of(blob, project_id).encode()).hexdigest()
    try:
        with write_tx():
            row_limits.require("credentials", user_id)
            return Credential.objects.create(
                id=credential_id, user_id=user_id, project_id=project_id, type=kind, encrypted_blob=_encrypted(blob)
            )
    except IntegrityError:
        raise Conflict("Conflict occurred attempting to store credential - Duplicate entry.") from None


def _encrypted(blob: str) -> str:
    return _box().encrypt(blob.encode()).decode()


def _access_of(blob: str, project_id: str | None) -> str:
    if project_id is None:
        raise Invalid("Invalid input for field/attribute project_id. EC2 credentials belong to a project.")
    try:
        access = json_text.loads(blob)["access"]
    except (ValueError, TypeError, KeyError):
        access = None
    if not isinstance(access, str) or not access:
        raise Invalid("Invalid input for field/attribute blob. It must be JSON with the keys access and secret.")
    return access


def change(credential_id: str, changes: Mapping[str, Any]) -> Credential:
    """Update `user_id`, `project_id`, `type` and `blob` where given. Raises NotFound and Invalid."""
    with write_tx():
        row = get(credential_id)
        if "user_id" in changes:
            users.get(changes["user_id"])
        if changes.get("project_id") is not None:
            projects.get(changes["project_id"])
        for field in changes.keys() - {"blob"}:
            setattr(row, field, changes[field])
        if row.type == EC2:
            _access_of(changes.get("blob", blob_of(row)), row.project_id)
        if "blob" in changes:
            row.encrypted_blob = _encrypted(changes["blob"])
        row.save()
    return row


def delete(credential_id: str) -> None:
    """Delete a credential. Raises NotFound."""
    with write_tx():
        get(credential_id).delete()


def create_ec2(caller: Granted, user_id: str, project_id: str) -> Credential:
    """Create a key pair for a user on a project. Raises NotFound, and Forbidden where the user has no role there."""
    users.get(user_id)
    project = projects.get(project_id)
    is_own = caller.project is not None and caller.project.id == project.id and caller.user.id == user_id
    if not is_own and not caller.is_admin:
        raise Forbidden("EC2 credentials are made with a token for the project that they are for.")
    pair = {"access": secrets.token_hex(16), "secret": secrets.token_hex(16), "trust_id": None}
    return create(user_id, project_id, EC2, json.dumps(pair))


def ec2_of(user_id: str) -> list[Credential]:
    """Return a user's key pairs. Raises NotFound."""
    users.get(user_id)
    return list(Credential.objects.filter(user_id=user_id, type=EC2).order_by("id"))


def get_ec2(user_id: str, access: str) -> Credential:
    """Return a user's key pair by its access key. Raises NotFound."""
    credential_id = hashlib.sha256(access.encode()).hexdigest()
    found = Credential.objects.filter(id=credential_id, user_id=user_id, type=EC2).first()
    if found is None:
        raise NotFound(f"Could not find credential: {access[:64]}.")
    return found
