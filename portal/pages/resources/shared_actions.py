"""Actions of many kinds of resources, each with its own names in the API and the shell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portal.pages.resources.fields import OWN_DESCRIPTION, OWN_NAME, options
from portal.pages.resources.model import Call, Execute, ResourceAction


def rename(
    noun: str,
    rule: str,
    path: str,
    cli: str,
    *,
    execute: Execute,
    schema: Mapping[str, Any] | None = None,
) -> ResourceAction:
    """Change name and description: a PUT of `{noun: …}` on `path`/id, and `openstack CLI set`."""
    return ResourceAction(
        id="edit",
        title="Rename",
        does="Changes the name and description.",
        rule=rule,
        execute=execute,
        schema=schema,
        fields=(OWN_NAME, OWN_DESCRIPTION),
        call=lambda form: Call(
            "PUT",
            f"{path}/{form.item['id']}",
            {noun: {"name": form.values["name"], "description": form.values["description"]}},
        ),
        cli=lambda form: [
            f"openstack {cli} set",
            *options(form.values, name="name", description="description"),
            str(form.item["id"]),
        ],
    )
