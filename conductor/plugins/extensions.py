"""Creates the extensions that the operator named, or reports what is wrong with a name or its options."""

from __future__ import annotations

from typing import Any

from conductor.core.errors import Invalid
from conductor.core.extensions import BY_KIND, Extension
from conductor.plugins.options import nearest, plugin_of
from conductor.plugins.registry import Registry

FIELD = "NOVELLA_EXTENSIONS"


class ExtensionFailed(Exception):
    """An extension gave no usable answer. Operators may see the text: of foreign errors it has only the type."""


def require_kind(kind: str) -> None:
    if kind not in BY_KIND:
        raise Invalid(f"There is no kind {kind}. {nearest(kind, BY_KIND)}Kinds: {', '.join(BY_KIND)}.", field=FIELD)


def made(found: Registry, kind: str, name: str, options: Any) -> Extension:
    """Return the extension of that name with its options. Raises Invalid."""
    require_kind(kind)
    extension: Extension = plugin_of(found.extensions.get(kind, {}), kind, name, options, f"{FIELD}.{kind}")
    return extension
