"""Request context: the caller, the project and the request id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The caller of one request.

    `user_id` and `project_id` are 32 hex digits; `roles` already hold the implied ones
    (admin > manager > member > reader). `request_id` is `req-<uuid>`.
    """

    user_id: str
    project_id: str
    request_id: str
    roles: frozenset[str] = field(default_factory=frozenset)
    user_name: str = ""
    project_name: str = ""
    remote_address: str = ""  # where the request came from; for audit records, never kept with a run
    # Only identity answers to these; every other request is on behalf of a project.
    domain_id: str = ""  # the domain that a token is for
    project_domain_id: str = ""  # the domain of the token's project
    is_on_system: bool = False  # whether a token is for the system as a whole
    is_on_admin_project: bool = False  # whether the project is that of the cloud's administrators
    # The origin of the authority; rows that outlive the request keep it, see `conductor.identity.delegation`.
    delegated_by: str = ""  # the trust or application credential of the token; "" for the user's own sign-in
    token_digest: str = ""  # of the token, where the request has one

    @property
    def is_admin(self) -> bool:
        """Whether this is an administrator of the cloud: the scope decides, not the role's name alone.

        The role `admin` on the system or on the admin project applies everywhere. On any other project it is no more
        than `manager` there, and on a domain it applies to that domain only.
        """
        return "admin" in self.roles and (self.is_on_system or self.is_on_admin_project)

    def has_role(self, role: str, project_id: str) -> bool:
        """Whether the role counts on a project: `admin` for the cloud only, the others in the caller's own project."""
        return self.is_admin or (role != "admin" and project_id == self.project_id and role in self.roles)

    def may_see_project(self, project_id: str) -> bool:
        return self.is_admin or project_id == self.project_id

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are kept with a run: all except how, and from where, the request was made."""
        return {
            "user_id": self.user_id,
            "project_id": self.project_id,
            "request_id": self.request_id,
            "roles": sorted(self.roles),
            "user_name": self.user_name,
            "project_name": self.project_name,
            **{name: True for name in ("is_on_system", "is_on_admin_project") if getattr(self, name)},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RequestContext:
        return cls(**{**data, "roles": frozenset(data["roles"])})


def system_context(request_id: str = "req-00000000-0000-0000-0000-000000000000") -> RequestContext:
    """Return the context of the product itself: periodic work, sweeps, repairs."""
    return RequestContext(
        user_id="0" * 32,
        project_id="0" * 32,
        request_id=request_id,
        roles=frozenset({"admin"}),
        user_name="system",
        is_on_system=True,
    )
