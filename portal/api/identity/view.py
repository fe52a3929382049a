"""What all views of the identity API share."""

from __future__ import annotations

from conductor.core.errors import NotFound
from portal.api.base import ApiView
from portal.api.identity.policies import RULES


class IdentityView(ApiView):
    """Base view: faults as identity spells them, rules of its table."""

    service = "identity"
    policies = RULES


def unless_visible(is_visible: bool, what: str, item_id: str) -> None:
    """Raises NotFound in the words that a missing item gets: nobody learns which ids exist."""
    if not is_visible:
        raise NotFound(f"Could not find {what}: {item_id}.")
