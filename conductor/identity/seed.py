"""Initial data of a new cloud: two users, two projects, five roles."""

from __future__ import annotations

from conductor.db.transactions import write_tx
from conductor.identity import catalog
from conductor.identity.domains import DEFAULT_ID
from conductor.identity.models import Domain, Project, Role, RoleAssignment, User

ROLES = ("admin", "manager", "member", "reader", "service")
PROJECTS = (("admin", "For operators."), ("demo", "For trying things out."))
ASSIGNMENTS: tuple[tuple[str, str | None, str], ...] = (
    ("admin", "admin", "admin"),
    ("admin", "demo", "admin"),
    ("demo", "demo", "member"),
    ("admin", None, "admin"),
)  # user, project (none: the system as a whole), role


def seed(admin_password: str, demo_password: str) -> None:
    """Create missing data. Existing users keep their password, name and rights, however often this runs."""
    passwords = {"admin": admin_password, "demo": demo_password}
    missing = [name for name in passwords if not User.objects.filter(username=name, domain_id=DEFAULT_ID).exists()]
    fresh = {name: User(username=name, domain_id=DEFAULT_ID) for name in missing}
    for name, user in fresh.items():
        user.set_password(passwords[name])  # before the transaction: hashing takes long
    with write_tx():
        domain, _ = Domain.objects.get_or_create(id=DEFAULT_ID, defaults={"name": "Default"})
        roles = {name: Role.objects.get_or_create(name=name, domain=None)[0] for name in ROLES}
        projects = {
            name: Project.objects.get_or_create(domain=domain, name=name, defaults={"description": description})[0]
            for name, description in PROJECTS
        }
        for name, user in fresh.items():
            user.default_project_id = projects[name].id
            user.save(force_insert=True)
        for username, project, role in ASSIGNMENTS:
            if username in fresh:
                RoleAssignment.objects.create(
                    user=fresh[username],
                    project=projects[project] if project else None,
                    is_on_system=project is None,
                    role=roles[role],
                )
        catalog.ensure_first_region()
