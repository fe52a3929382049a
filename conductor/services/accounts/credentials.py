"""Generated passwords, and the files with which the command line client signs in."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import string
import tempfile
from collections.abc import Mapping
from pathlib import Path

from conductor.identity import assignments
from conductor.identity.assignments import AssignmentFilter
from conductor.identity.models import GroupMembership, Role

PEOPLE = ("admin", "demo")  # each is also the name of a project
PASSWORDS_FILE = "passwords.json"

_OPENRC = """\
# Settings for the openstack client: `source {path}` for the administrator, `source {path} demo` for the member.
unset OS_TOKEN OS_SYSTEM_SCOPE OS_DOMAIN_ID OS_DOMAIN_NAME OS_PROJECT_ID OS_USER_ID OS_CLOUD
export OS_AUTH_TYPE=password
export OS_AUTH_URL={auth_url}
export OS_IDENTITY_API_VERSION=3
export OS_REGION_NAME=RegionOne
export OS_INTERFACE=public
export OS_USER_DOMAIN_NAME=Default
export OS_PROJECT_DOMAIN_NAME=Default
case "${{1:-admin}}" in
admin)
    export OS_USERNAME=admin OS_PROJECT_NAME=admin OS_PASSWORD={admin}
    ;;
demo)
    export OS_USERNAME=demo OS_PROJECT_NAME=demo OS_PASSWORD={demo}
    ;;
*)
    echo "openrc.sh: no user $1; there are admin and demo" >&2
    ;;
esac
"""

_CLOUD = """\
  {cloud}:
    region_name: RegionOne
    interface: public
    identity_api_version: 3
    auth:
      auth_url: {auth_url}
      username: {person}
      password: {password}
      project_name: {person}
      user_domain_name: Default
      project_domain_name: Default
"""
_CLOUDS = {"novella": "demo", "novella-admin": "admin"}


def load_or_generate_passwords(data_dir: Path) -> dict[str, str]:
    """Return the passwords of the first two users. The first call generates them; later calls return the same."""
    path = data_dir / PASSWORDS_FILE
    known: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    missing = [name for name in PEOPLE if name not in known]
    if missing:
        known |= {name: _new_password() for name in missing}
        _write_private(path, json.dumps(known, indent=2) + "\n")
    return known


def _new_password() -> str:
    # Letters and digits only: nothing to quote, and a double click selects the whole password.
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(20))


def write(data_dir: Path, base_url: str, passwords: Mapping[str, str]) -> None:
    """Write openrc.sh and clouds.yaml for the cloud at `base_url` (no slash at the end)."""
    auth_url = f"{base_url}/identity/v3"
    openrc = data_dir / "openrc.sh"
    quoted = {person: shlex.quote(passwords[person]) for person in PEOPLE}
    _write_private(openrc, _OPENRC.format(path=openrc, auth_url=shlex.quote(auth_url), **quoted))
    entries = [
        _CLOUD.format(cloud=cloud, auth_url=auth_url, person=person, password=json.dumps(passwords[person]))
        for cloud, person in _CLOUDS.items()
    ]
    _write_private(data_dir / "clouds.yaml", "clouds:\n" + "".join(entries))


def _write_private(path: Path, text: str) -> None:
    """Replace a file atomically.

    No other user can read it at any moment: the temporary file is created with mode 0600.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def members(project_id: str) -> list[str]:
    """Return the ids of the users who may launch servers in the project."""
    member = Role.objects.filter(name="member", domain=None).first()
    if member is None:
        return []
    held = assignments.in_effect(AssignmentFilter(role_id=member.id, project_id=project_id))
    return sorted({shown.user.id for shown in held if shown.project is not None})


def groups_of(user_id: str) -> set[str]:
    """Return the ids of the user's groups. A role that is assigned to a group applies to its members."""
    return set(GroupMembership.objects.filter(user_id=user_id).values_list("group_id", flat=True))
